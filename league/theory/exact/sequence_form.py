"""A game's tree in sequence form, enumerated once, from which exact values are computed.

The sequence form (Koller, Megiddo and von Stengel 1996; von Stengel 1996, "Efficient computation of
behavior strategies") keeps, of a whole game tree, only the terminals and the sequences of actions
of each seat. A seat's behaviour becomes a realisation plan x, with x(empty) = 1 and
x(sequence + action) = x(sequence) * probability, and every expected return is a sum over terminals
of chance * product over seats of x(last sequence) * return. This needs perfect recall, which is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from league.theory.exact.states import Key, has_more_positions, is_native, root_state, state_key

HISTORY_LIMIT = 400_000  # positions of a tree; liars_dice has 295 thousand, tic_tac_toe 550 thousand
TIE = 1e-9  # values of actions that differ by less, in the game's units, count as equal

Behaviour = Sequence[Sequence[float]]  # a distribution for each information state  # [I][actions]


@dataclass(frozen=True, slots=True)
class SequenceForm:
    """The sequences of all seats, numbered together, and the terminals that they lead to.

    I information states, Q sequences, Z terminals, S seats. Sequences 0..S-1 are the empty ones of
    each seat; the actions of information state i are the sequences ``first[i] : first[i] + len(legal[i])``.
    An information state comes after all those that the same seat passes before it.
    """

    game: str
    seats: int
    keys: tuple[Key, ...]  # [I]
    legal: tuple[tuple[int, ...], ...]  # action ids, ascending  # [I][actions]
    parent: tuple[int, ...]  # the seat's sequence that leads to the information state  # [I]
    first: tuple[int, ...]  # [I]
    sequences: int  # Q
    chance: NDArray[np.float64]  # product of the chance probabilities on the way  # [Z]
    last: NDArray[np.int64]  # each seat's last sequence  # [Z, S]
    returns: NDArray[np.float64]  # in the game's units  # [Z, S]

    def plan(self, behaviour: Behaviour) -> NDArray[np.float64]:
        """Return the realisation plan of all seats [Q] for one distribution per information state [I][actions]."""
        plan = [1.0] * self.sequences
        for first, parent, probabilities in zip(self.first, self.parent, behaviour, strict=True):
            reach = plan[parent]
            for offset, probability in enumerate(probabilities):
                plan[first + offset] = reach * probability
        return np.array(plan)

    def values(self, behaviour: Behaviour) -> tuple[float, ...]:
        """Return the expected returns by seat [S] when every seat follows ``behaviour`` [I][actions]."""
        reach = self.chance * self.plan(behaviour)[self.last].prod(axis=1)
        return tuple((reach @ self.returns).tolist())

    def best_responses(self, behaviour: Behaviour) -> tuple[float, ...]:
        """Return, by seat [S], the most it can expect while every other seat follows ``behaviour``."""
        plan = self.plan(behaviour)
        return tuple(self.best_response(seat, plan) for seat in range(self.seats))

    def best_response(self, seat: int, plan: NDArray[np.float64]) -> float:
        """Return the most that ``seat`` can expect while every other seat follows ``plan`` [Q]."""
        return self.response(seat, plan[np.delete(self.last, seat, axis=1)].prod(axis=1))[0]

    def response(self, seat: int, opponent_reach: NDArray[np.float64]) -> tuple[float, dict[int, int]]:
        """Return the most that ``seat`` can expect, and the index of its best legal action by information state.

        ``opponent_reach`` [Z] is the probability that the other seats play towards each terminal. It need not be
        a product of plans, as they may be correlated, nor sum to one, as the value is linear in it. Of actions
        equal up to rounding the first is best; information states that the opponents never reach have none.
        """
        weights = self.chance * opponent_reach
        gains = np.bincount(self.last[:, seat], weights * self.returns[:, seat], self.sequences).tolist()
        reaches = np.bincount(self.last[:, seat], weights, self.sequences).tolist()
        best_actions = {}
        for index in range(len(self.keys) - 1, -1, -1):
            if self.keys[index][0] == seat:
                actions = slice(self.first[index], self.first[index] + len(self.legal[index]))
                best, reach = max(gains[actions]), sum(reaches[actions])
                if reach > 0.0:
                    best_actions[index] = next(
                        action for action, gain in enumerate(gains[actions]) if gain >= best - TIE * reach
                    )
                gains[self.parent[index]] += best
                reaches[self.parent[index]] += reach
        return float(gains[seat]), best_actions

    def plans(self, seat: int, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return many realisation plans of one seat at once, each [Q], as columns [Q, N].

        ``probabilities`` [A, N] belong to the actions of the seat's information states, in order.
        The other seats' sequences are zero.
        """
        plans = np.zeros((self.sequences, probabilities.shape[1]))
        plans[seat] = 1.0
        start = 0
        for (owner, _), first, parent, ids in zip(self.keys, self.first, self.parent, self.legal, strict=True):
            if owner == seat:
                stop = start + len(ids)
                np.multiply(probabilities[start:stop], plans[parent], out=plans[first : first + len(ids)])
                start = stop
        return plans


@lru_cache(maxsize=8)
def sequence_form(game: str, limit: int = HISTORY_LIMIT) -> SequenceForm:
    """Enumerate a game by its registry name; the result is kept for the life of the process.

    Raises UsageError for a game with more than ``limit`` positions, one that OpenSpiel cannot
    enumerate, or one without perfect recall, whose information states forget what the seat did.
    """
    if is_native(game) and has_more_positions(game, limit):  # such a walk takes long if the rules are in Python
        raise too_many_positions(game, limit)
    return enumerated(game, root_state(game), partial(state_key, game), limit)


def enumerated(game: str, root: Any, key: Callable[[Any, int], str], limit: int = HISTORY_LIMIT) -> SequenceForm:
    """Enumerate the tree below a state with the methods of ``pyspiel.State``; ``game`` is its name in errors.

    ``key`` gives the information state of a seat in a state. Raises UsageError as ``sequence_form``.
    """
    builder = _Builder(game, key, limit)
    builder.walk(root)
    return builder.finish()


def too_many_positions(game: str, limit: int) -> UsageError:
    """Return the error for a game whose enumeration passes ``limit`` positions."""
    return UsageError(
        f"{game} has more than {limit:,} positions, too many to analyse exactly. Compare players by matches instead."
    )


@dataclass(slots=True)
class _Builder:
    """The fields of a ``SequenceForm``, while a walk over the tree fills them."""

    game: str
    key: Callable[[Any, int], str]
    limit: int
    seats: int = 0
    index: dict[Key, int] = field(default_factory=dict)
    legal: list[tuple[int, ...]] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    sequences: int = 0
    terminals: list[tuple[float, tuple[int, ...], list[float]]] = field(default_factory=list)

    def walk(self, root: Any) -> None:
        """Visit every position, parents before children."""
        self.seats = self.sequences = root.num_players()
        stack = [(root, 1.0, tuple(range(self.seats)))]
        visited = 0
        while stack:
            state, chance, last = stack.pop()
            visited += 1
            if visited > self.limit:
                raise too_many_positions(self.game, self.limit)
            if state.is_terminal():
                self.terminals.append((chance, last, state.returns()))
            elif state.is_chance_node():
                stack += [(state.child(action), chance * p, last) for action, p in state.chance_outcomes() if p > 0]
            else:
                seat = state.current_player()
                key = (seat, self.key(state, seat))
                first = self.first[self._information_state(key, tuple(state.legal_actions()), last[seat])]
                stack += [
                    (state.child(action), chance, (*last[:seat], first + offset, *last[seat + 1 :]))
                    for offset, action in enumerate(state.legal_actions())
                ]

    def _information_state(self, key: Key, legal: tuple[int, ...], parent: int) -> int:
        """Return the index of an information state, added if new. Raises UsageError without perfect recall."""
        if key not in self.index:
            self.index[key] = len(self.index)
            self.legal.append(legal)
            self.parent.append(parent)
            self.first.append(self.sequences)
            self.sequences += len(self.legal[-1])
        elif self.parent[self.index[key]] != parent:
            raise UsageError(
                f"{self.game} cannot be analysed exactly: seat {key[0]} forgets its own moves at {key[1]!r}, and "
                "best responses need perfect recall. Compare players by matches instead."
            )
        return self.index[key]

    def finish(self) -> SequenceForm:
        """Return the sequence form, its lists turned into arrays."""
        chance, last, returns = zip(*self.terminals, strict=True)
        return SequenceForm(
            game=self.game,
            seats=self.seats,
            keys=tuple(self.index),
            legal=tuple(self.legal),
            parent=tuple(self.parent),
            first=tuple(self.first),
            sequences=self.sequences,
            chance=np.array(chance),
            last=np.array(last),
            returns=np.array(returns),
        )
