"""A curriculum over eight small games, beside all of them alike, for a pocket model that learns from nothing.

    python -m benchmarks.studies.self_play.curriculum curriculum [--seeds 0 1 2 3 4] [--keep DIR] [--workers 1] [--json]

The games are a space as a user would write it, not one chosen to be easy: families and their parameters. What a run is
worth in a game is a share of what can be had: the part of uniform play's exploitability that is gone, or the share of
held-out sums that are right. The figure is the mean of the 10th, 20th, ... and 50th percentile over games, as XLand
(arXiv 2107.12808) compares agents. Matches that judge games come on top of those that train.

With --keep, an interrupted measurement continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from games.registry import make_game
from league import match, open_run
from league.theory.exact.exploitability import exploitability, uniform_table
from league.theory.statistics import percentiles

HELD_OUT = 400  # matches
SPACE = """
iterations = 60
snapshot_every = 10
threads = 1
board.time = 0.0
evaluation.matches = 16

[games.kuhn_poker]
matches = 32
[games."goofspiel(imp_info=True,num_cards={3,4},points_order=descending)"]
matches = 32
[games."liars_dice(dice_sides=2)"]
matches = 32
[games."sums(digits={1,4},base={2,10})"]
matches = 32

[model]
hidden_size = 64
layers = 1
intermediate_size = 128

[objective]
name = "ppo"
clip_low = 0.9
clip_high = 9.0
kl_old = 2.0
entropy = 0.1
entropy_end = 0.02

[optimizer]
learning_rate = 1e-3
learning_rate_end = 2e-4
inner_steps = 4
minibatch_prompts = 128

[matchmaking]
self_play = 0.8
fictitious = 0.2
opponents = 1
"""
CONDITIONS = {  # what is set, by name
    "all games alike": [],
    "curriculum": ["curriculum.matches=16"],
    "curriculum, the defaults before": ["curriculum.matches=16", "curriculum.better=0", "curriculum.kept=0"],
}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return what a run's newest snapshot is worth: by percentile over games, in the mean and by game."""
    run = open_run(run_dir)
    last = run.iterations()[-1]
    matches = sum(value for line in run.iterations() for name, value in line.items() if name.endswith("/matches"))
    return {
        **summary(shares(run_dir, last, str(run_dir), run.config.seed)),
        "matches": matches - sum(line.get("curriculum/matches", 0.0) for line in run.iterations()),
        "judging": last.get("curriculum/matches", 0.0),
    }


def shares(run_dir: Path, line: Mapping[str, float], player: str, seed: int) -> dict[str, float]:
    """Return by game what a snapshot has of all that can be had; ``line`` is that of the iteration that froze it."""
    worth = {}
    for game in open_run(run_dir).config.games:
        if make_game(game).spec.seats > 1:
            worth[game] = max(1.0 - line[f"{game}/exploitability"] / exploitability(uniform_table(game)), 0.0)
        else:
            held_out = match(player, "scripted:poor", game=game, matches=2 * HELD_OUT, seed=10_000 + seed).episodes
            worth[game] = fmean([e.returns[0] for e in held_out if e.request.players[0] != "scripted:poor"])
    return worth


def summary(worth: Mapping[str, float]) -> dict[str, Any]:
    """Return the figure of shares by game, with what it is the mean of."""
    by_percentile = {f"percentile_{p}": value for p, value in percentiles(worth).items()}
    return {
        "figure": fmean(by_percentile.values()),
        **by_percentile,
        "mean": fmean(worth.values()),
        "worth": dict(worth),
    }


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the table."""
    configs = {name: load_settings(SPACE, settings) for name, settings in CONDITIONS.items()}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    columns = {f"percentile_{p}": f"{p}th" for p in (10, 20, 30, 40, 50)} | {"mean": "mean over games"}
    table = {
        "game": "eight games: " + ", ".join(configs["curriculum"].games),
        "figure": "share of what can be had, mean of five percentiles over games",
        "less_is_better": False,
        "columns": columns | {"matches": "training matches", "judging": "judging matches"},
        "conditions": [{"name": name, "runs": [figures[name, seed] for seed in seeds]} for name in CONDITIONS],
    }
    return {"study": "curriculum", "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["curriculum"], measure_study, table_lines)


if __name__ == "__main__":
    main()
