"""Exact influence (``learners.influence``) of seats' messages and actions, in games that can be enumerated.

Messages after which no other seat has the next turn are left out, and the remaining weights are normalised.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.position_graph import PositionGraph
from league.theory.exact.sequence_form import Behaviour
from league.theory.exact.states import root_state, state_key
from league.theory.exact.turn_values import turn_values
from learners.influence import Distribution, influence
from roles.role import Role


def exact_influence(table: PolicyTable) -> dict[int, float]:
    """Return by seat the mean influence (nats) of its messages when the table plays all seats.

    Each history is weighted by its probability. Seats after which no other seat ever has the next turn are left out.
    Raises UsageError for a game that cannot be enumerated.
    """
    form, moved = exact_form(table.game), _Moved({}, {})
    if isinstance(form, PositionGraph):
        _add_positions(moved, form, table)
    else:
        _add_histories(moved, table, root_state(table.game), 1.0)
    return {seat: float(moved.nats[seat] / reach) for seat, reach in moved.reach.items() if reach > 0.0}


def influence_by_role(table: PolicyTable, roles: Sequence[Role]) -> dict[str, float]:
    """Return ``exact_influence`` by the name of each seat's role; the mean if several seats share one."""
    by_role: dict[str, list[float]] = {}
    for seat, nats in sorted(exact_influence(table).items()):
        by_role.setdefault(roles[seat].name, []).append(nats)
    return {name: fmean(numbers) for name, numbers in by_role.items()}


class _Moved(NamedTuple):
    """Sums over a game, by seat."""

    nats: dict[int, float]  # influence, times the probability of getting there
    reach: dict[int, float]

    def add(self, seat: int, reach: float, answers: Sequence[tuple[float, Distribution | None]]) -> None:
        """Add a seat's possible messages, each with its weight and its answer, if there are answers."""
        answered = [(weight, answer) for weight, answer in answers if answer is not None and weight > 0.0]
        if answered:
            weights, rows = zip(*answered, strict=True)
            self.nats[seat] = self.nats.get(seat, 0.0) + reach * influence(weights, rows)
            self.reach[seat] = self.reach.get(seat, 0.0) + reach


def _add_histories(moved: _Moved, table: PolicyTable, state: Any, reach: float) -> None:
    """Add a history that is reached with this probability, and all below it."""
    if state.is_terminal():
        return
    following = [(p, state.child(action)) for action, p in _policy(table, state) if p > 0.0]
    if not state.is_chance_node():
        seat = state.current_player()
        moved.add(seat, reach, [(p, _answer(table, child, seat)) for p, child in following])
    for p, child in following:
        _add_histories(moved, table, child, reach * p)


def _policy(table: PolicyTable, state: Any) -> list[tuple[int, float]]:
    """Return the possible next actions, with probabilities."""
    if state.is_chance_node():
        return list(state.chance_outcomes())
    seat = state.current_player()
    row = table.probabilities[seat, state_key(table.game, state, seat)]
    return list(zip(sorted(state.legal_actions()), row, strict=True))


def _answer(table: PolicyTable, state: Any, speaker: int) -> Distribution | None:
    """Return the next action's distribution by (seat, action), over chance; None if the speaker or nobody is next."""
    if state.is_terminal():
        return None
    if not state.is_chance_node():
        seat = state.current_player()
        return None if seat == speaker else {(seat, action): p for action, p in _policy(table, state)}
    total: dict[Hashable, float] = {}
    for outcome, p in state.chance_outcomes():
        following = _answer(table, state.child(outcome), speaker) if p > 0.0 else {}
        if following is None:
            return None
        for move, q in following.items():
            total[move] = total.get(move, 0.0) + p * q
    return total


def _add_positions(moved: _Moved, graph: PositionGraph, table: PolicyTable) -> None:
    """Add every position of a board game."""
    behaviour = [table.probabilities[key] for key in graph.keys]
    visits = turn_values(graph, behaviour).visits.tolist()
    for (seat, _), children, row, reach in zip(graph.keys, graph.children, behaviour, visits, strict=True):
        moved.add(
            seat, reach, [(p, _of_child(graph, behaviour, child, seat)) for p, child in zip(row, children, strict=True)]
        )


def _of_child(graph: PositionGraph, behaviour: Behaviour, child: int, speaker: int) -> Distribution | None:
    if child < 0 or (seat := graph.keys[child][0]) == speaker:
        return None
    return {(seat, action): p for action, p in zip(graph.legal[child], behaviour[child], strict=True)}
