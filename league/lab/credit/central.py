"""The exact values of a critic that sees all seats: what their joint information is worth to each seat.

Under a joint policy σ, with o = (o_1 … o_n) the information states of all seats where seat s is to act,

    V(o, s) = E[returns | o, then all follow σ]

In most games o determines the whole history up to unseen chance moves, and V is the value of the full state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from arena.records import Episode
from arena.submatches import positions
from games.registry import make_game
from games.spec import choice_game
from league.lab.credit.matches import PlayedBatch
from league.lab.credit.rules import Floats
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.states import root_state, state_key
from learners.trajectories import Evidence

JointKey = tuple[int, tuple[str, ...]]  # (seat to act, the information state of every seat)


class _Sums(NamedTuple):
    """The sums that a walk over a game collects."""

    returns: dict[JointKey, Floats]  # expected ones, times the probability of getting there  # [S]
    reach: dict[JointKey, float]


def joint_values(table: PolicyTable) -> dict[JointKey, Floats]:
    """Return the expected returns by seat [S], in the game's units, at every position that the table reaches.

    Raises UsageError for a game that cannot be enumerated.
    """
    sums = _Sums({}, {})
    exact_form(table.game)  # refuses games that are too large
    _visit(table, sums, root_state(table.game), 1.0)
    return {key: total / sums.reach[key] for key, total in sums.returns.items()}


def _visit(table: PolicyTable, sums: _Sums, state: Any, reach: float) -> Floats:
    """Add a history of this probability, and all below it; return the expected returns there [S]."""
    if state.is_terminal():
        return np.array(state.returns(), np.float64)
    if state.is_chance_node():
        return _mean(table, sums, state, reach, state.chance_outcomes())
    seat = state.current_player()
    key = seat, tuple([state_key(table.game, state, other) for other in range(state.num_players())])
    row = table.probabilities[seat, key[1][seat]]
    value = _mean(table, sums, state, reach, zip(sorted(state.legal_actions()), row, strict=True))
    sums.returns[key] = sums.returns.get(key, 0.0) + reach * value
    sums.reach[key] = sums.reach.get(key, 0.0) + reach
    return value


def _mean(table: PolicyTable, sums: _Sums, state: Any, reach: float, following: Iterable[tuple[int, float]]) -> Floats:
    below = [p * _visit(table, sums, state.child(action), reach * p) for action, p in following if p > 0.0]
    return np.asarray(np.sum(below, axis=0))


def central_evidence(table: PolicyTable, scale: float, batches: Sequence[PlayedBatch]) -> list[list[Evidence]]:
    """Return the value of all seats' joint information at each turn, less the rewards that its seat had before.

    The table plays all seats; values are divided by ``scale``, as the trajectories' rewards are. Raises UsageError for
    a game that is too large.
    """
    values, evidence = joint_values(table), []
    for batch in batches:
        keys = {episode.request.index: joint_keys(table.game, episode) for episode in batch.episodes}
        rows = []
        for trajectory in batch.trajectories:
            totals = (
                np.array([values[keys[trajectory.match][index]][trajectory.seat] for index in trajectory.order]) / scale
            )
            paid = np.cumsum(trajectory.rewards) - np.array(trajectory.rewards)
            rows.append(Evidence(values=tuple((totals - paid).tolist())))
        evidence.append(rows)
    return evidence


def joint_keys(game: str, episode: Episode) -> list[JointKey]:
    """Return all seats' information states before each turn of a match, with the seat to act."""
    match = choice_game(make_game(game))
    seats = range(match.spec.seats)
    before = zip(positions(match, episode), episode.turns, strict=False)  # the last position has no turn
    return [(turn.seat, tuple([match.information_state(seat) for seat in seats])) for _, turn in before]
