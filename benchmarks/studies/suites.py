"""What training on a suite's games does there and in those that it holds out: before and after, beside fixed players.

    python -m benchmarks.studies.suites mars [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]
    python -m benchmarks.studies.suites spiral ...
    python -m benchmarks.studies.suites smol_spiral --seeds 0   # league models get smollm2-135m first

Every run of ``mars`` and ``spiral`` is the preset of that name. ``smol_spiral`` trains the pretrained model of the
preset ``smol``, with that preset's settings, on few matches of the games of ``spiral``, and measures it by fewer; it
takes the first seed only. Figures are mean returns in each game, over all seatings and on the same deals for all:
against ``random``, where all earn the same with itself, and against ``mcts:100`` where that plays. "cold start" is the
run's first snapshot, "trained" its last. With --keep, an interrupted measurement continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

import league
from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from games.aliases import short_name
from games.spec import Utility
from league.population.storage.run_dir import Run

PRETRAINED = "smol_spiral"
STUDIES = ("mars", "spiral", PRETRAINED)
PRETRAINED_GAMES: dict[str, Any] = {  # nearly every position of the last two is a prompt of its own
    "kuhn_poker": {"matches": 512},
    "tic_tac_toe": {"matches": 16, "every": 5},
    "simple_negotiation(goods=2,stock=1,most=3,turns=3,form=1)": {"matches": 16, "every": 3},
}
FIXED = ("random", "mcts:100")  # players beside which the run's stand
CONDITIONS = ("cold start", "trained", *FIXED)


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's mean returns by "KIND GAME OPPONENT" and condition."""
    from league.lab.comparisons.before_and_after import changes, evaluate

    run = Run(run_dir)
    returns: dict[str, dict[str, float]] = {}
    for change in changes(run):
        key = " ".join((change.pairing.kind, change.pairing.game, change.pairing.opponent))
        returns[key] = {"cold start": change.before.returns.mean, "trained": change.after.returns.mean}
    for player in FIXED:
        for result in evaluate(run, player.replace(":", "-"), player).results:
            key = " ".join((result.pairing.kind, result.pairing.game, result.pairing.opponent))
            returns.setdefault(key, {})[player] = result.returns.mean
    return {"figure": 0.0, "returns": returns}


def tables_of(runs: Sequence[dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    """Return a table for each game and opponent of the runs' returns: a condition is shown if all runs have it."""
    tables = []
    for key in runs[0]:
        kind, game, opponent = key.split(" ")[0], *key.rsplit(" ", 2)[1:]
        if not _is_told(game, opponent):
            continue
        known = [name for name in CONDITIONS if all(name in returns[key] for returns in runs)]
        shown = "trained on" if kind == "training" else "held out"
        tables.append(
            {
                "game": f"{short_name(game)}, {shown}",
                "figure": f"mean return {'with' if opponent == 'itself' else 'against'} {opponent}",
                "less_is_better": False,
                "columns": {},
                "conditions": [{"name": n, "runs": [{"figure": returns[key][n]} for returns in runs]} for n in known],
            }
        )
    return tables


def _is_told(game: str, opponent: str) -> bool:
    """Return whether a game's table with an opponent says how good play is."""
    common = league.make_game(game).spec.utility is Utility.IDENTICAL
    return opponent == "itself" if common else opponent != "itself"


def config_of(study: str) -> league.RunConfig:
    """Return the settings of a study's runs, which keep neither figures nor transcripts: nobody would look at them."""
    quiet = ("board.time=0.0", "episodes_kept=0")
    if study != PRETRAINED:
        return league.load_config(study, *quiet)
    settings = league.load_config("smol", *quiet).model_dump(mode="json", exclude_unset=True, exclude_none=True)
    settings |= {"iterations": 20, "snapshot_every": 10, "games": PRETRAINED_GAMES, "credit": {"rule": "rae"}}
    suite = {"suite": "spiral", "suite_matches": 16, "suite_opponents": FIXED, "matches": 0, "exact": False}
    settings["evaluation"] = suite
    return load_settings(tomli_w.dumps(settings))


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return a table for each game and opponent."""
    if study == PRETRAINED:
        seeds = seeds[:1]
    figures = measure_runs({study: config_of(study)}, seeds, measure, keep, workers)
    runs = [figures[study, seed]["returns"] for seed in seeds]
    return {
        "study": study,
        "seeds_used": list(seeds),
        "seconds": [figures[study, seed]["seconds"] for seed in seeds],
        "tables": tables_of(runs),
    }


def main() -> None:
    """Measure and print."""
    run_study(__doc__, STUDIES, measure_study, table_lines)


if __name__ == "__main__":
    main()
