"""Last iterates: what the newest snapshot of self-play that settles is worth, against plain self-play's.

    python -m benchmarks.studies.self_play.settling STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Each study is one game, trained by the preset `settle` as `league train settle --game GAME` does it, and by plain
self-play: `settle-returns` without magnet and average, and with the weights of entropy and the old policy of `pocket`.
Both play the same number of matches. Figures are exact. With --keep, an interrupted study continues, and further
seeds join it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.studies.runs import Result, measure_runs, run_study, table_lines
from league import RunConfig, exploitability, load_config, open_run

GAMES = {
    "settle-kuhn": "kuhn_poker",
    "settle-leduc": "leduc_poker",
    "settle-goofspiel": "goofspiel(imp_info=True,num_cards=4,points_order=descending)",
    "settle-dice": "liars_dice(dice_sides=4)",
    "settle-kuhn3": "kuhn_poker(players=3)",
    "settle-hex": "hex(board_size=3)",
}
MEASURING = ("episodes_kept=0", "evaluation.matches=0")  # what is measured is exact
PLAIN = (
    "objective.magnet=0",
    "objective.magnet_end=0",
    "objective.kl_old=2",
    "objective.kl_old_end=2",
    "objective.entropy_end=0.04",
)
COLUMNS = {
    "quarter": "mean of the last quarter",
    "rise": "rise over it",
    "mixture": "the run's mixture",
    "seconds": "seconds",
}


def conditions(game: str) -> dict[str, RunConfig]:
    """Return the configurations that are compared, by name."""
    settle = load_config("settle", *MEASURING, games=[game])
    plain = load_config("settle-returns", *MEASURING, *PLAIN, games=[game])
    return {"plain self-play": plain.model_copy(update={"policies": {}}), "settle": settle}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's figures: the exploitability of its newest snapshot at the end and over the last quarter."""
    run = open_run(run_dir)
    [game] = run.config.games
    lines = run.iterations()
    start = 0.75 * lines[-1]["iteration"]
    quarter = [
        line[f"{game}/exploitability"]
        for line in lines[1:]
        if f"{game}/exploitability" in line and line["iteration"] >= start
    ]
    if not quarter:  # beyond evaluation.exact_limit, so that the run did not measure it
        late = [snapshot for snapshot in run.snapshots("main") if snapshot.step >= start]
        quarter = [exploitability(f"{run_dir}@{snapshot.id}", game=game).exploitability for snapshot in late]
    figures = {"figure": quarter[-1], "quarter": fmean(quarter), "rise": quarter[-1] - quarter[0]}
    mixture = lines[-1].get(f"{game}/mixture_exploitability")  # boards have none
    return figures if mixture is None else {**figures, "mixture": mixture}


def measure_study(name: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of a study that are not in ``keep`` yet; return its table."""
    configs = conditions(GAMES[name])
    figures = measure_runs(configs, seeds, measure, keep, workers)
    table = {
        "game": GAMES[name],
        "figure": "exploitability of the newest snapshot",
        "less_is_better": True,
        "places": 3,
        "columns": {key: label for key, label in COLUMNS.items() if all(key in run for run in figures.values())},
        "conditions": [
            {"name": condition, "runs": [figures[condition, seed] for seed in seeds]} for condition in configs
        ],
    }
    return {"study": name, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(GAMES), measure_study, table_lines)


if __name__ == "__main__":
    main()
