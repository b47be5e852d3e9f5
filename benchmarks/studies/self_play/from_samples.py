"""Self-play from samples: PPO and magnetic mirror descent with small networks, and `settle-sampled` beside them.

    python -m benchmarks.studies.self_play.from_samples STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

The protocol of Rudolph et al., "Reevaluating policy gradient methods for imperfect-information games" (ICLR 2026):
plain self-play, an entropy bonus of 0.05 to 0.2, ten million decisions, and exact exploitability of what is played,
over the number of decisions. The studies `equal-…` train a pocket language model by `settle-sampled`, and the networks
on as many decisions as it took. With --keep, an interrupted study continues. Networks are trained one after another;
--workers are for the language models.

    python -m benchmarks.studies.self_play.from_samples --draw

draws the stored results as benchmarks/results/from_samples.png.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from benchmarks.report.curves import draw_over_seeds, save_with_legend, value_at
from benchmarks.report.page import RESULTS
from benchmarks.simulations.settling_table import Floats
from benchmarks.studies.runs import Result, measure_runs, run_study
from benchmarks.studies.self_play.policy_gradients import Arrays, Learner, learn
from games.common.files import atomic_write
from league import load_config

DECISIONS = 10_000_000
MARKS = tuple(float(mark) for mark in np.geomspace(1e4, DECISIONS, 19))  # decisions at which is measured
LEARNERS = {
    "PPO, entropy 0.05": Learner("ppo", 0.05, 0.05, normalised=True),
    "PPO, entropy 0.2": Learner("ppo", 0.2, 0.2, normalised=True),
    "MMD, entropy 0.05": Learner("mmd", 0.05, 0.05, normalised=False),
    "MMD, entropy 0.2 to 0.01": Learner("mmd", 0.2, 0.01, normalised=False),
}
PRESET = "settle-sampled"


class Game(NamedTuple):
    """A game of the study."""

    title: str
    name: str


LEDUC = Game("Leduc poker", "leduc_poker")
GOOFSPIEL = Game("goofspiel, 4 cards", "goofspiel(imp_info=True,num_cards=4,points_order=descending)")
DICE = Game("liar's dice, 4 faces", "liars_dice(dice_sides=4)")
HEX = Game("dark hex, 2 × 2", "dark_hex(board_size=2)")
GAMES = {
    "samples-leduc": LEDUC,
    "samples-goofspiel": GOOFSPIEL,
    "samples-hex": HEX,
    "samples-dice": DICE,
    "samples-goofspiel5": Game("goofspiel, 5 cards", "goofspiel(imp_info=True,num_cards=5,points_order=descending)"),
    "samples-dice6": Game("liar's dice, 6 faces", "liars_dice"),
    "samples-dice2x3": Game("liar's dice, 2 dice of 3 faces", "liars_dice(dice_sides=3,numdice=2)"),
}
SETTLED = {"equal-leduc": LEDUC, "equal-goofspiel": GOOFSPIEL, "equal-hex": HEX, "equal-dice": DICE}


@lru_cache(maxsize=1)
def arrays_of(game: str) -> Arrays:
    """Return a game's arrays, which take seconds for a large one."""
    return Arrays(game)


def trained(game: str, learner: Learner, budget: int, seed: int, kept: Path) -> dict[str, Any]:
    """Return the course of a network, read from ``kept`` if it is there and was of these constants."""
    asked = json.loads(json.dumps({"game": game, "learner": learner._asdict(), "budget": budget, "seed": seed}))
    if kept.exists() and (stored := json.loads(kept.read_text(encoding="utf-8")))["asked"] == asked:
        return dict(stored["course"])
    course = learn(arrays_of(game), learner, budget, seed, MARKS)
    kept.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(kept, json.dumps({"asked": asked, "course": course}))
    print(f"{kept.stem}: {course['exploitability'][-1]:.3f}", file=sys.stderr, flush=True)
    return course


def expected_length(arrays: Arrays, logprobs: Floats, explore: float) -> float:
    """Return the decisions that a training match is expected to take: seats explore by turns.  # logprobs [Q]"""
    own, mixed = slice(arrays.seats, None), logprobs.copy()
    even = 1.0 / arrays.actions[arrays.state[own]]
    mixed[own] = np.log((1.0 - explore) * np.exp(logprobs[own]) + explore * even)
    return fmean(arrays.length(np.where(arrays.seat == seat, mixed, logprobs)) for seat in range(arrays.seats))


def measure(run_dir: Path, game: str) -> dict[str, Any]:
    """Return the course of a language model: its snapshots' exploitability over the decisions that were expected."""
    import league
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve

    run, arrays = league.open_run(run_dir), arrays_of(game)
    course: dict[str, Any] = {"decisions": [0.0], "exploitability": []}
    [settings] = run.config.games.values()
    spec, step, before = make_game(game).spec, 0, 0.0
    with Engines() as engines:
        for snapshot in run.snapshots("main"):
            table = resolve(f"{run_dir}@{snapshot.id}", spec, engines).tabulate().table
            rows = [table.probabilities[key] for key in arrays.form.keys]
            logprobs = np.concatenate([np.zeros(arrays.seats), np.log(np.maximum(np.concatenate(rows), 1e-300))])
            length = expected_length(arrays, logprobs, run.config.matchmaking.explore)
            if snapshot.step:
                since = (snapshot.step - step) * settings.matches * (length + before) / 2.0
                course["decisions"].append(course["decisions"][-1] + since)
            course["exploitability"].append(arrays.exploitability(logprobs))
            step, before = snapshot.step, length
    return course


def settled(game: str, seeds: Sequence[int], workers: int, keep: Path) -> list[dict[str, Any]]:
    """Return the courses of language models that `settle-sampled` trains; what is measured of them is exact."""
    config = load_config(PRESET, "episodes_kept=0", "evaluation.matches=0", "evaluation.exact=false", games=[game])
    return list(measure_runs({PRESET: config}, seeds, partial(measure, game=game), keep, workers).values())


def measure_study(name: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of a study that are not in ``keep`` yet; return the courses by condition."""
    game, budget, conditions = (GAMES | SETTLED)[name], DECISIONS, []
    if name in SETTLED:
        runs = settled(game.name, seeds, workers, keep)
        conditions.append({"name": f"`{PRESET}`", "runs": runs})
        budget = round(fmean(run["decisions"][-1] for run in runs))
    for label, learner in LEARNERS.items():
        files = [keep / f"{label}, seed {seed}.json" for seed in seeds]
        pairs = zip(seeds, files, strict=True)
        courses = [trained(game.name, learner, budget, seed, kept) for seed, kept in pairs]
        conditions.append({"name": label, "runs": courses})
    arrays = arrays_of(game.name)
    curve = {
        "game": game.title,
        "states": len(arrays.form.keys),
        "uniform": arrays.exploitability(arrays.uniform()),
        "conditions": conditions,
    }
    return {"study": name, "seeds_used": list(seeds), "learning": [curve]}


def summary(result: Result) -> Iterator[str]:
    """Yield a line for each condition, with its last exploitabilities."""
    for curve in result["learning"]:
        for condition in curve["conditions"]:
            values = " ".join(f"{run['exploitability'][-1]:.3f}" for run in condition["runs"])
            yield f"{curve['game']}: {condition['name']}: {values}"


def draw(path: Path = RESULTS / "from_samples.png") -> None:
    """Draw the stored results of ten million decisions, a panel for each game: means over seeds, 95 % intervals."""
    from league.training.board.figures.canvas import COLOURS, new_figure, tidy

    stored = [RESULTS / f"{name}.json" for name in GAMES]
    curves = [json.loads(file.read_text(encoding="utf-8"))["result"]["learning"][0] for file in stored if file.exists()]
    columns = min(3, len(curves))
    rows, wide = -(-len(curves) // columns), 0.975 / columns
    figure = new_figure("Exploitability over decisions, from samples", height=0.8 + 2.1 * rows)
    figure.set_figwidth(9.0)
    height = figure.get_figheight()
    for index, curve in enumerate(curves):
        row, column = divmod(index, columns)
        bottom = (0.82 + 2.1 * (rows - 1 - row)) / height
        axes = figure.add_axes((0.05 + wide * column, bottom, wide - 0.055, 1.35 / height))
        for condition, colour in zip(curve["conditions"], COLOURS, strict=False):
            values = [[value_at(run, mark) for run in condition["runs"]] for mark in MARKS]
            shown = [index for index, each in enumerate(values) if not any(map(math.isnan, each))]
            steps, values = [MARKS[index] for index in shown], [values[index] for index in shown]
            draw_over_seeds(axes, steps, values, colour, condition["name"])
        axes.set_xscale("log")
        tidy(axes, curve["game"], x_label="decisions")
        axes.set_ylim(bottom=0.0)
    save_with_legend(figure, path)


def main() -> None:
    """Measure and print, or draw."""
    run_study(__doc__, [*GAMES, *SETTLED], measure_study, summary, draw)


if __name__ == "__main__":
    main()
