"""What learned turn values are worth, and which credit rule for my game: over tables, against the exact gradient.

    python -m benchmarks.simulations.credit_rules PART [--seeds 0 1 2 3 4] [--keep DIR] [--json]

``learned_values`` is the microscope of Leduc poker with estimators that learned from 4,096 other matches.
``which_rule`` is what the microscope says of small batches at the start, and what each rule then learns;
``which_rule_groups`` the same in groups of 4 matches of a start, so that rules which compare within them take part;
``mars_levels`` the same for MARS's two levels, in games that pay in the middle.

With --keep, each game and seed is kept when it is done, and an interrupted measurement continues.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.simulations.credit_courses import BATCH, COURSES, Courses, Credit, View, look_at, study
from benchmarks.simulations.drawn_matches import ends_of
from games.aliases import full_name
from games.common.files import atomic_write
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config.credit import CreditConfig
from league.lab.credit.rules import parse_variant
from learners.trajectories import return_scale

MICROSCOPE = "leduc_poker"
ROWS = {  # of the microscope; the default first
    "rae": "rae",
    "gae_turn, exact values, λ = 0": "gae_turn:trace_decay=0",
    "gae_turn, archer, λ = 0": "gae_turn:trace_decay=0@archer",
    "gae_turn, token_values, λ = 0": "gae_turn:trace_decay=0@token_values",
    "contribution, progress": "contribution@progress",
    "contribution, progress without its residual": "contribution@progress:residual=0",
    "contribution, preferences": "contribution@preferences",
}


def look(alias: str, seed: int) -> dict[str, Any]:
    """Return the microscope's figures by row."""
    game, found = full_name(alias), dict[str, Any]()
    ends, scale = ends_of(game), return_scale(make_game(game).spec)
    print(f"{alias}, seed {seed}", file=sys.stderr, flush=True)
    for name, text in ROWS.items():
        rng = np.random.default_rng(derive_seed("learned values", game, seed))
        credit = Credit(parse_variant(text, CreditConfig()), scale)
        found[name] = look_at(ends, credit, rng, View(512, 16, 4096))
    return found


def measure(part: str, seeds: Sequence[int], keep: Path | None) -> dict[str, Any]:
    """Return the tables by game, and how well the microscope's order foretells that of what is learned."""
    if part == "learned_values":
        looks = [_kept(partial(look, MICROSCOPE, seed), MICROSCOPE, seed, keep) for seed in seeds]
        columns = {"bias": "bias", "noise": "noise"}
        conditions = [{"name": name, "runs": [one[name] for one in looks]} for name in ROWS]
        figure = "cosine of a batch's gradient with the exact one"
        table = {"game": MICROSCOPE, "figure": figure, "less_is_better": False, "columns": columns}
        return {"tables": [table | {"conditions": conditions}]}
    courses = COURSES[part]
    found = {
        game: [_kept(partial(study, courses, game, seed), game, seed, keep) for seed in seeds] for game in courses.steps
    }
    tables = [_table(courses, game, runs) for game, runs in found.items()]
    if len(courses.rules) < 3:  # nothing to rank
        return {"tables": tables}
    return {"tables": tables, "ranks": {game: [_rank_correlation(run) for run in runs] for game, runs in found.items()}}


def _kept(measured: Callable[[], dict[str, Any]], game: str, seed: int, keep: Path | None) -> dict[str, Any]:
    path = keep and keep / f"{game}-{seed}.json"
    if path and path.is_file():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    found = measured()
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, json.dumps(found))
    return found


def _table(courses: Courses, game: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a game: the value at the end, and the share of matches until the default's end value."""
    default, matches = next(iter(courses.rules)), BATCH * courses.iterations
    conditions = []
    for name in courses.rules:
        rows = []
        for run in runs:
            goal, course = run[default]["course"][-1], run[name]["course"]
            reached = next((place for place, value in enumerate(course) if value <= goal), None)
            share = float("inf") if reached is None else reached / (len(course) - 1)
            rows.append({"figure": course[-1], "cosine": run[name]["cosine"], "share": min(share, 9.0)})
        conditions.append({"name": name, "runs": rows})
    return {
        "game": game,
        "figure": ("lacking of the best return" if game == "tiny_hanabi" else "exploitability")
        + f" after {matches} matches",
        "less_is_better": True,
        "columns": {"cosine": "cosine at the start", "share": "share of the matches until the first's end"},
        "conditions": conditions,
    }


def _rank_correlation(run: dict[str, Any]) -> float:
    """Return Spearman's correlation of the order by cosine with that by what was learned, best first in both."""
    from scipy.stats import spearmanr

    return float(spearmanr([one["cosine"] for one in run.values()], [-one["course"][-1] for one in run.values()])[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["learned_values", *COURSES])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep each game and seed in DIR/PART")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    keep = arguments.keep and arguments.keep / arguments.part
    print(json.dumps(measure(arguments.part, arguments.seeds, keep), indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
