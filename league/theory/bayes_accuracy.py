"""How often a Bayesian who knows all types correctly predicts the other player's type and next action.

At each of a seat's turns it names the likeliest type and the other player's likeliest next action, given what the
seat sees (its information state) but not what it will do itself. No predictor that sees the same can be right more
often. With P over matches in which types are equally likely and seats alternate,

    accuracy = Σ over I of max_y P(I, y) / Σ over I of Σ_y P(I, y),

where y runs over the types or over the other's next actions; turns after which the other never acts are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.theory.beliefs import two_seat_form
from league.theory.exact.exploitability import PolicyTable, information_positions
from league.theory.exact.states import root_state, state_key

Floats = NDArray[np.float64]
OwnTurn = tuple[int, str]  # the seat's turns before, and what it sees: its information state
Joint = defaultdict[OwnTurn, defaultdict[str, float]]  # P(I, y)


class BayesAccuracy(NamedTuple):
    """How often a Bayesian is right."""

    by_turn: Mapping[int, float]  # by the number of turns that the seat had before
    overall: float


class BayesAccuracies(NamedTuple):
    """How much can be known about the other player."""

    type: BayesAccuracy
    action: BayesAccuracy


def bayes_accuracies(table: PolicyTable, types: Sequence[PolicyTable]) -> BayesAccuracies:
    """Return how often a Bayesian who plays as ``table`` is right, over both seats and equally likely types.

    Raises UsageError for a game of other than two seats or that cannot be enumerated.
    """
    two_seat_form(table.game)
    walks = [_Walk(seat, table, types) for seat in (0, 1)]
    for walk in walks:
        walk.visit(root_state(table.game), np.full(len(types), 1.0 / len(types)), ())
    return BayesAccuracies(_accuracy([walk.types for walk in walks]), _accuracy([walk.actions for walk in walks]))


def _accuracy(joints: Sequence[Joint]) -> BayesAccuracy:
    """Return the accuracy of the likeliest answer given what each of the seats sees."""
    right, answered = defaultdict[int, float](float), defaultdict[int, float](float)
    for (turn, _), answers in (item for joint in joints for item in joint.items()):
        right[turn] += max(answers.values())
        answered[turn] += sum(answers.values())
    by_turn = {turn: right[turn] / answered[turn] for turn in sorted(answered) if answered[turn] > 0.0}
    return BayesAccuracy(by_turn, sum(right.values()) / (sum(answered.values()) or 1.0))


class _Walk:
    """A walk over a game's tree from the view of one seat."""

    def __init__(self, seat: int, own: PolicyTable, types: Sequence[PolicyTable]) -> None:
        self._seat, self._own, self._tables = seat, own, types
        self._positions = information_positions(own.game)
        self.types: Joint = defaultdict(lambda: defaultdict(float))
        self.actions: Joint = defaultdict(lambda: defaultdict(float))

    def visit(self, state: Any, reach: Floats, waiting: tuple[OwnTurn, ...], turn: int = 0) -> None:
        """Add a position and all below it.

        ``reach`` [K] is the probability of each type and of getting there with it, ``waiting`` the seat's turns since
        the other last acted, ``turn`` how many it had in all.
        """
        if state.is_terminal() or not reach.any():
            return
        if state.is_chance_node():
            for action, probability in state.chance_outcomes():
                self.visit(state.child(action), reach * probability, waiting, turn)
            return
        key = (state.current_player(), state_key(self._own.game, state, state.current_player()))
        if key[0] == self._seat:
            for number, probability in enumerate(reach.tolist()):
                self.types[turn, key[1]][str(number)] += probability
            for action, probability in zip(state.legal_actions(), self._own.probabilities[key], strict=True):
                self.visit(state.child(action), reach * probability, (*waiting, (turn, key[1])), turn + 1)
            return
        chances = np.array([table.probabilities[key] for table in self._tables])  # [K, A]
        names = dict(zip(self._positions[key].legal_ids(), self._positions[key].legal_actions(), strict=True))
        for index, action in enumerate(state.legal_actions()):
            after = reach * chances[:, index]
            for turn_key in waiting:
                self.actions[turn_key][names[action]] += float(after.sum())
            self.visit(state.child(action), after, (), turn)
