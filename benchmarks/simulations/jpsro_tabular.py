"""Joint PSRO over tables beside OpenSpiel's: the (C)CE gap of the population's equilibrium by iteration.

    python -m benchmarks.simulations.jpsro_tabular [--json]

Marris et al. 2021 (arXiv 2106.09435). Each player starts with the uniform strategy. In each iteration the
(coarse) correlated equilibrium of maximum Gini impurity is found among the line-ups, and each player adds the
exact best response of the largest gain that it does not have yet: for a CCE against the others' marginal, for a
CE against their distribution given one of its own recommendations. The gap is the sum of the players' gains by
these: 0 for an equilibrium of the full game. From one iteration to the next it need not fall, as the equilibrium
of maximum impurity among more strategies can lie elsewhere.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from league.theory.exact.equilibrium_gaps import (
    best_response_table,
    exact_game,
    gains_by_recommendation,
    opponent_reach,
)
from league.theory.exact.exploitability import PolicyTable, uniform_table
from league.theory.exact.sequence_form import sequence_form
from league.theory.solvers.correlated import Concept, mgcce, mgce
from league.theory.solvers.empirical_game import EmpiricalGame, Joint

KUHN = "kuhn_poker(players=3)"
SHERIFF = "sheriff(item_penalty=1.0,item_value=5.0,max_bribe=2,max_items=10,num_rounds=2,sheriff_penalty=1.0)"
SOLVERS: dict[Concept, Callable[[EmpiricalGame], Joint]] = {"ce": mgce, "cce": mgcce}
LEAST = 1e-8  # a probability or a gain below it counts as none, as in OpenSpiel

# The gaps by iteration of OpenSpiel 2.0.2: algorithms.jpsro.run_loop with target_equilibrium as named here,
# train_meta_solver "mgce" or "mgcce", policy_init "uniform", update_players_strategy "all", br_selection
# "largest_gap", ignore_repeats, seed 0; CVXPY 1.9.3 with CVXOPT 1.3.3, OSQP 1.1.3 where that fails.
# It adds a random strategy when nobody gains, so its sheriff continues after the first 0.
OPENSPIEL: dict[tuple[str, Concept], tuple[float, ...]] = {
    (KUHN, "ce"): (
        *(2.0625, 0.833333, 0.625, 0.522584, 0.402778, 0.359343, 0.540702, 0.171646, 0.037956, 0.024319),
        *(0.016444, 0.006125),
    ),
    (KUHN, "cce"): (
        *(2.0625, 0.833333, 0.625, 0.485333, 0.425214, 0.333338, 0.250853, 0.110642, 0.048411, 0.04966),
        *(0.017519, 0.007779, 0.002794),
    ),
    (SHERIFF, "ce"): (
        *(12.409091, 5.909091, 1.538706, 1.81731, 0.005777, 3.342085, 3.929601, 1.061507, 0.0, 0.174369, 0.0),
    ),
    (SHERIFF, "cce"): (
        *(12.409091, 5.909091, 1.374674, 20.696186, 0.884249, 8.162404, 0.400955, 0.247671, 0.319595, 15.834181),
        *(0.105253, 8.425504, 0.273902, 4.502171, 0.236905, 1.273908, 0.334351, 0.235899, 0.653747, 0.320211),
        *(0.548066, 0.0, 0.0, 0.0, 0.0, 0.0),
    ),
}
EXTRA_ITERATIONS = 4  # beyond OpenSpiel's number: its less exact equilibria may have taken fewer


class Iteration(NamedTuple):
    """A population's equilibrium, and the gain of deviating from it in the full game."""

    strategies: tuple[int, ...]  # [P]
    values: tuple[float, ...]  # in the game's units a match  # [P]
    gap: float
    seconds: float  # since the start


def jpsro(game: str, concept: Concept, iterations: int) -> list[Iteration]:
    """Return the first ``iterations`` iterations, fewer if nobody gains any more."""
    tables = [[uniform_table(game)] for _ in range(sequence_form(game).seats)]
    course: list[Iteration] = []
    start = time.perf_counter()
    while len(course) < iterations:
        meta_game = exact_game(tables)
        joint = _cleaned(SOLVERS[concept](meta_game))
        gains = [gains_by_recommendation(joint, tables, seat, concept) for seat in range(len(tables))]
        values = (meta_game.values * joint).reshape(len(tables), -1).sum(axis=1)
        gap = float(sum(gain.sum() for gain in gains))
        course.append(Iteration(joint.shape, tuple(values.tolist()), gap, time.perf_counter() - start))
        new = [_response(joint, tables, seat, gain, concept) for seat, gain in enumerate(gains)]
        if not any(new):
            break
        for player_tables, responses in zip(tables, new, strict=True):
            player_tables += responses
    return course


def _cleaned(joint: Joint) -> Joint:
    positive = np.where(joint < LEAST, 0.0, joint)
    return np.asarray(positive / positive.sum())


def _response(
    joint: Joint, tables: list[list[PolicyTable]], seat: int, gains: np.ndarray, concept: Concept
) -> list[PolicyTable]:
    """Return the best response of the largest gain that the player does not have; none where nothing is to gain."""
    others, form = opponent_reach(joint, tables, seat, concept), sequence_form(tables[0][0].game)
    known = [{key: row for key, row in table.probabilities.items() if key[0] == seat} for table in tables[seat]]
    for place in np.argsort(-gains, kind="stable"):
        response = best_response_table(seat, others[place], form)
        if gains[place] > LEAST and response.probabilities not in known:
            return [response]
    return []


def measure() -> dict[str, Any]:
    """Return by game and concept the gaps of this project's and OpenSpiel's."""
    courses: dict[str, Any] = {}
    for (game, concept), reference in OPENSPIEL.items():
        course = jpsro(game, concept, len(reference) + EXTRA_ITERATIONS)
        courses[f"{game.partition('(')[0]}_{concept}"] = {
            "gaps": [iteration.gap for iteration in course],
            "openspiel_gaps": list(reference),
            "values": course[-1].values,
            "strategies": course[-1].strategies,
            "seconds": course[-1].seconds,
        }
    return courses


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    courses = measure()
    if arguments.json:
        print(json.dumps({"courses": courses}))
        return
    for name, course in courses.items():
        print(f"{name}: {course['seconds']:.1f} s\n  iteration     this gap  OpenSpiel's")
        for number, (ours, theirs) in enumerate(itertools.zip_longest(course["gaps"], course["openspiel_gaps"])):
            cells = ["–" if gap is None else f"{gap:.6f}" for gap in (ours, theirs)]
            print(f"{number:11}{cells[0]:>13}{cells[1]:>13}")


if __name__ == "__main__":
    main()
