"""What a batch learns from: each rule of selection, by the matches until it plays as the default does at its end.

    python -m benchmarks.studies.selection STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 1] [--json]

`selection-sums` learns sums in base 3 from nothing, `selection-programs` programs and `selection-find_number` numbers
by their instructions, both from a model that has seen solutions, `selection-kuhn` Kuhn poker with free replies, where
an illegal one is refused twice before it forfeits the match, and `selection-smol` the same with SmolLM2-135M. All
learn by `grpo` in groups of eight. The default's end is its seed's mean over the last five iterations: of the return in
tasks, of legal replies in Kuhn. A run that does not get there in the window of five counts all its matches and one
iteration's more. With --keep, an interrupted study continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from benchmarks.studies.tasks.settings import COMMON, CONTINUED, imitate
from league import open_run
from league.training.board.metrics_log import read_metrics

WINDOW = 5  # iterations
DEFAULT = "every turn (default)"


class Study(NamedTuple):
    """A game, its settings, and the rules that are compared."""

    game: str
    settings: dict[str, Any]
    measure: str  # the metric that should rise
    falls: bool  # it is one less the metric
    conditions: dict[str, dict[str, Any]]
    imitates: bool = False


def rules(*names: str, **tables: Any) -> dict[str, Any]:
    """Return the settings of a condition."""
    return {"selection": {"rules": list(names), **tables}}


GROUPS = {
    "flat": rules("flat"),
    "spread, half": rules("spread", spread={"share": 0.5}),
    "stratified by outcome": rules("stratified", stratified={"by": ["role", "outcome"], "weights": "equal"}),
}
REFUSED = {"refused at -1": rules("refused", refused={"advantage": -1.0})}
REPLAYED = {  # what older weights drew differs from what the learner would draw: that is no fault of the engine
    "objective": COMMON["objective"] | {"truncate": 2.0},
    "optimizer": COMMON["optimizer"] | {"max_gap": 1.0},
}
POOL = {"starts": {"rule": "uniform", "size": 64}}  # so that a start returns
SHORT = {"iterations": 16, "snapshot_every": 16}
KUHN = {
    "roles": {"reply": "free", "on_illegal": "retry", "retries": 2, "max_reply_tokens": 6},
    "cold_start": {"steps": 40},
    "objective": COMMON["objective"] | {"entropy": 0.0},
    "optimizer": COMMON["optimizer"] | {"learning_rate": 5e-4},
    "alarms": {"stop": []},
}
SMOL = KUHN | {  # warm enough that a fifth of the first replies are refused
    "games": {"kuhn_poker": {"matches": 32}},
    "iterations": 6,
    "snapshot_every": 6,
    "model": {"source": "smollm2-135m"},
    "policies": {"main": {"weights": "lora", "rank": 16}},
    "roles": KUHN["roles"] | {"max_reply_tokens": 8},
    "cold_start": {
        "matches": 50,
        "own_replies": 8,
        "demonstrations": 2,
        "steps": 6,
        "batch_size": 128,
        "learning_rate": 1e-3,
    },
    "optimizer": COMMON["optimizer"] | {"learning_rate": 2e-4, "micro_batch_tokens": 0},
}
STUDIES = {
    "selection-sums": Study(
        "sums(base=3)",
        POOL | SHORT,
        "sums(base=3)/return/solver",
        False,
        GROUPS | {"successes": rules("successes") | REPLAYED},
    ),
    "selection-programs": Study(
        "programs(size=3,tests=3,form=1)",
        CONTINUED | POOL | SHORT,
        "programs(size=3,tests=3,form=1)/return/solver",
        False,
        GROUPS,
        imitates=True,
    ),
    "selection-find_number": Study(
        "find_number",
        CONTINUED | POOL | SHORT,
        "find_number/return/solver",
        False,
        GROUPS
        | {
            "successes": rules("successes")
            | REPLAYED
            | {"optimizer": CONTINUED["optimizer"] | {"max_gap": REPLAYED["optimizer"]["max_gap"]}}
        },
        imitates=True,
    ),
    "selection-kuhn": Study(
        "kuhn_poker",
        KUHN | SHORT,
        "illegal_rate",
        True,
        {
            "refused left out": rules("refused"),
            **REFUSED,
            "eligible": rules("eligible"),
            "steps": rules("steps"),
            "fewest errors": rules("fewest_errors"),
        },
    ),
    "selection-smol": Study("kuhn_poker", SMOL, "illegal_rate", True, REFUSED | {"steps": rules("steps")}),
}
COLUMNS = {
    "end": "at its end",
    "share_reached": "share of seeds that get there",
    "idle_before": "turns that weigh nothing, default",
    "left_out": "left out",
    "idle": "of the rest, without an advantage",
}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's curve of the measure, its matches an iteration, and the shares of turns that weigh nothing."""
    [game] = open_run(run_dir).config.games
    lines = [line for line in read_metrics(run_dir) if line["iteration"]]
    study = next(study for study in STUDIES.values() if study.game == game)
    curve = [1.0 - line[study.measure] if study.falls else line[study.measure] for line in lines]
    shares = {
        name: fmean(
            [value for line in lines for key, value in line.items() if key.startswith(f"{game}/{metric}/")] or [0.0]
        )
        for name, metric in (("flat", "flat_groups"), ("left_out", "left_out"), ("idle", "idle"))
    }
    return {"curve": curve, "matches": lines[0][f"{game}/matches"], **shares}


def reached(curve: Sequence[float], level: float) -> int | None:
    """Return after how many iterations the mean of the last ``WINDOW`` is at a level; None if it never is."""
    windows = (i for i in range(WINDOW, len(curve) + 1) if fmean(curve[i - WINDOW : i]) >= level)
    return next(windows, None)


def figures_of(run: dict[str, Any], default: dict[str, Any]) -> dict[str, float]:
    """Return the figures of a run beside the default's of its seed."""
    iterations = reached(run["curve"], fmean(default["curve"][-WINDOW:]))
    return {
        "figure": run["matches"] * (len(run["curve"]) + 1 if iterations is None else iterations),
        "end": fmean(run["curve"][-WINDOW:]),
        "share_reached": float(iterations is not None),
        "idle_before": default["flat"],
        "left_out": run["left_out"],
        "idle": run["idle"] if run["left_out"] or run["idle"] else run["flat"],
        "seconds": run["seconds"],
    }


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the table."""
    chosen = STUDIES[study]
    common = COMMON | {"games": {chosen.game: {"matches": 64}}} | chosen.settings
    if chosen.imitates:
        common["model"] = {"source": str(imitate(chosen.game, keep))}
    conditions: dict[str, dict[str, Any]] = {DEFAULT: {}} | chosen.conditions
    configs = {name: load_settings(tomli_w.dumps(common | own)) for name, own in conditions.items()}
    runs = measure_runs(configs, seeds, measure, keep / "runs", workers)
    matches = common["games"][chosen.game]["matches"]
    table = {
        "game": f"{chosen.game}, {common['iterations']} iterations of {matches} matches",
        "figure": "matches until the default's end is reached",
        "less_is_better": True,
        "columns": COLUMNS,
        "conditions": [
            {"name": name, "runs": [figures_of(runs[name, seed], runs[DEFAULT, seed]) for seed in seeds]}
            for name in configs
        ],
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(STUDIES), measure_study, table_lines)


if __name__ == "__main__":
    main()
