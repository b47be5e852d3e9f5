"""Which starts to play, and whether players can write their own: pocket models that learn tasks from nothing.

    python -m benchmarks.studies.starts starts [--seeds 0 1 2] [--keep DIR] [--workers 1] [--json]

``starts``: sums of growing size. Every run has the same number of reply tokens, those of a proposer included, and
GRPO's groups. Two rules draw from a pool of dealt starts; in the third condition a second policy writes all sums, paid
by Agent0's shape, and the solver attempts them. The figure is the share of held-out sums that the last snapshot gets
right, all sizes alike; beside it stand the frontier of the run's pool at its end, and the share of groups that taught
nothing.

``inject_repair``: one policy plants bugs in small programs, another mends them. The figure is the share of the fixed
list of held-out bugs that the solver mends, before and after.

With --keep, an interrupted measurement continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from games.common.seeds import derive_seed
from games.registry import make_game
from games.tasks.interface import TakesTasks
from league import match, open_run
from league.monitors.metrics_log import read_metrics

DIGITS = 4
GAME = "sums(base=3)"
WRITER = "propose_sums(base=3,form=1,tasks=2)"
REPAIR, INJECT, BUGS = "repair(form=1)", "inject_repair(form=1)", "repair(form=1,held_out=1)"
HELD_OUT = 600  # sums
MENDED = 240  # matches, ten of each of the 24 held-out bugs on average
TOKENS = 15_000  # of all replies, after which a run of sums ends
REPAIR_TOKENS = 8_000
COLUMNS = {  # by figure
    "1 digits": "1 digit",
    "2 digits": "2 digits",
    "3 digits": "3 digits",
    "4 digits": "4 digits",
    "solved": "starts solved",
    "out_of_reach": "out of reach",
    "frontier": "mean digits of the rest",
    "flat": "flat groups",
}
COMMON: dict[str, Any] = {
    "threads": 1,
    "iterations": 150,
    "snapshot_every": 10,
    "episodes_kept": 0,
    "matchmaking": {"self_play": 1.0, "fictitious": 0.0, "group_size": 8},
    "credit": {"rule": "grpo"},
    "objective": {"name": "ppo", "clip_low": 0.9, "clip_high": 9.0, "kl_old": 2.0, "entropy": 0.02},
    "optimizer": {"learning_rate": 2e-3, "inner_steps": 4, "minibatch_prompts": 128},
    "model": {"hidden_size": 64, "intermediate_size": 128, "vocabulary": 320},
    "evaluation": {"exact": False, "matches": 0, "anchors": []},
}
DEALT = {"games": {GAME: {"matches": 128}}}


def settings_of_authors(writer: str, author: str, solver: str) -> dict[str, Any]:
    """Return the settings of runs in which a policy of its own writes tasks: 8 matches of two, each with 8 attempts."""
    return {
        "games": {writer: {"matches": 8}},
        "roles": {"policy": {f"{writer}/{author}": "author", f"{solver}/solver": "main"}},
        "starts": {"rule": "uniform", "size": 256},
    }


CONDITIONS = {  # of the study of sums
    "uniform": DEALT | {"starts": {"rule": "uniform", "size": 256}},
    "learnability": DEALT | {"starts": {"rule": "learnability", "size": 256}},
    "proposer": settings_of_authors(WRITER, "proposer", GAME),
}


def measure_sums(run_dir: Path) -> dict[str, Any]:
    """Return the shares of held-out sums that a run's last snapshot gets right, and where its frontier is."""
    seed = open_run(run_dir).config.seed
    return shares_by_size(run_dir, GAME, range(1, DIGITS + 1), "digits", HELD_OUT, seed) | figures_of_log(run_dir, GAME)


def shares_by_size(run: Path, game: str, sizes: Sequence[int], unit: str, matches: int, seed: int) -> dict[str, float]:
    """Return the shares of held-out tasks that a run's last snapshot solves, by size and over all sizes alike."""
    right: dict[int, list[float]] = {size: [] for size in sizes}
    held_out = derive_seed(seed, "held out")
    for episode in match(run, "scripted:poor", game=game, matches=2 * matches, seed=held_out).episodes:
        if episode.request.players[0] != "scripted:poor":
            right[_size(game, episode.request.deal_seed)].append(episode.returns[0])
    by_size = {f"{size} {unit}": fmean(values) for size, values in right.items()}
    return {"figure": fmean(by_size.values()), **by_size}


def measure_repair(run_dir: Path) -> dict[str, Any]:
    """Return the shares of held-out bugs that a run's last and first snapshots of the solver mend."""
    seed = derive_seed(open_run(run_dir).config.seed, "held out")
    snapshots = open_run(run_dir).snapshots("main")
    before, after = (_mended(f"{run_dir}@{snapshots[which].id}", seed) for which in (0, -1))
    return {"figure": after, "before": before, **figures_of_log(run_dir, REPAIR), "invalid": _at_end(run_dir, INJECT)}


def _mended(player: str, seed: int) -> float:
    """Return the share of held-out bugs that a player mends."""
    episodes = match(player, "scripted:poor", game=BUGS, matches=2 * MENDED, seed=seed).episodes
    return fmean(e.returns[0] for e in episodes if e.request.players[0] != "scripted:poor")


def figures_of_log(run_dir: Path, game: str) -> dict[str, float]:
    """Return where a run's frontier was at its end, the share of groups that taught nothing, and the tokens it took."""
    lines = [line for line in read_metrics(run_dir) if line["iteration"]]
    flat = fmean([line[f"{game}/flat_groups/solver"] for line in lines if f"{game}/flat_groups/solver" in line])
    frontier = {name: lines[-1].get(f"{game}/starts/{name}", 0.0) for name in ("solved", "out_of_reach", "frontier")}
    return {**frontier, "flat": flat, "tokens": sum(line["reply_tokens"] for line in lines)}


def _at_end(run_dir: Path, game: str) -> float:
    """Return the share of tasks that were not admitted in a run's last ten iterations."""
    return fmean([line[f"{game}/tasks/invalid"] for line in [*read_metrics(run_dir)][-10:] if line["iteration"]])


def _size(name: str, deal_seed: int) -> int:
    game = make_game(name)
    assert isinstance(game, TakesTasks)
    game.reset(deal_seed)
    return game.task_size()


def measure_starts(seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of sums that are not in ``keep`` yet; return the table."""
    configs = {name: load_settings(tomli_w.dumps(COMMON | own)) for name, own in CONDITIONS.items()}
    figures = measure_runs(configs, seeds, measure_sums, keep, workers, TOKENS)
    conditions = [{"name": name, "runs": [figures[name, seed] for seed in seeds]} for name in CONDITIONS]
    table = {
        "game": f"{GAME}, {TOKENS:,} reply tokens",
        "figure": f"share of {HELD_OUT} held-out sums that are right, all sizes alike",
        "less_is_better": False,
        "columns": COLUMNS,
        "conditions": conditions,
    }
    return {"study": "starts", "seeds_used": list(seeds), "tables": [table]}


def measure_injections(seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of bugs that are not in ``keep`` yet; return the table, in which before is a condition."""
    own = settings_of_authors(INJECT, "injector", REPAIR)
    configs = {"after": load_settings(tomli_w.dumps(COMMON | own))}
    figures = measure_runs(configs, seeds, measure_repair, keep, workers, REPAIR_TOKENS)
    after = [figures["after", seed] for seed in seeds]
    before = [{"figure": run["before"], "seconds": 0.0} for run in after]
    table = {
        "game": f"{INJECT}, {REPAIR_TOKENS:,} reply tokens",
        "figure": f"share of {MENDED} matches, dealt from the 24 held-out bugs, in which the bug is mended",
        "less_is_better": False,
        "columns": {},
        "conditions": [{"name": "before", "runs": before}, {"name": "after", "runs": after}],
    }
    return {"study": "inject_repair", "seeds_used": list(seeds), "tables": [table]}


STUDIES: dict[str, Callable[[Sequence[int], int, Path], Result]] = {
    "starts": measure_starts,
    "inject_repair": measure_injections,
}


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure a study."""
    return STUDIES[study](seeds, workers, keep)


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(STUDIES), measure_study, table_lines)


if __name__ == "__main__":
    main()
