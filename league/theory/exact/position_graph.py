"""A board game's positions, each enumerated once, from which exact values are computed.

With perfect information and no chance moves, the moves before a position do not matter, and backward
induction over positions gives values and best responses (Zermelo 1913). Tic-tac-toe has 5,478 boards;
its game tree would hold 549,946 orders of moves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from games.openspiel.game import information_state, load_pyspiel
from league.theory.exact.sequence_form import Behaviour, too_many_positions
from league.theory.exact.states import Key

POSITION_LIMIT = 50_000


@dataclass(frozen=True, slots=True)
class PositionGraph:
    """I decision points, each after all that can follow it, so that the initial position is last.

    ``children`` holds the index of a position, or for a terminal -1 - its row in ``returns``.
    """

    game: str
    seats: int
    keys: tuple[Key, ...]  # [I]
    legal: tuple[tuple[int, ...], ...]  # action ids, ascending  # [I][actions]
    children: tuple[tuple[int, ...], ...]  # [I][actions]
    returns: tuple[tuple[float, ...], ...]  # in the game's units  # [terminals][seats]

    def values(self, behaviour: Behaviour) -> tuple[float, ...]:
        """Return the expected returns by seat [seats] when every seat follows ``behaviour`` [I][actions]."""
        return tuple(self._walk(behaviour, seat, responder=None) for seat in range(self.seats))

    def best_responses(self, behaviour: Behaviour) -> tuple[float, ...]:
        """Return, by seat [seats], the most it can expect while every other seat follows ``behaviour``."""
        return tuple(self._walk(behaviour, seat, responder=seat) for seat in range(self.seats))

    def value(self) -> float:
        """Return the first of two seats' expected return when both play optimally, in a zero-sum game."""
        *_, last = self.action_values()
        return max(last) if self.keys[-1][0] == 0 else -max(last)

    def action_values(self) -> list[tuple[float, ...]]:
        """Return what each action is worth to the seat that takes it, [I][actions], if both of two seats then play
        optimally, in a zero-sum game.
        """
        first: list[float] = []  # the first seat's value of each position
        rows: list[tuple[float, ...]] = []
        for (owner, _), children in zip(self.keys, self.children, strict=True):
            sign = 1.0 if owner == 0 else -1.0
            row = [sign * (first[child] if child >= 0 else self.returns[-1 - child][0]) for child in children]
            rows.append(tuple(row))
            first.append(sign * max(row))
        return rows

    def _walk(self, behaviour: Behaviour, seat: int, responder: int | None) -> float:
        """Return the expected return of ``seat`` while ``responder``, if any, picks the best action for it."""
        terminal_values = [row[seat] for row in self.returns]
        values: list[float] = []
        for (owner, _), children, probabilities in zip(self.keys, self.children, behaviour, strict=True):
            child_values = [values[child] if child >= 0 else terminal_values[-1 - child] for child in children]
            if owner == responder:
                values.append(max(child_values))
            else:
                values.append(sum([p * value for p, value in zip(probabilities, child_values, strict=True)]))
        return values[-1]


@lru_cache(maxsize=4)
def position_graph(game: str, limit: int = POSITION_LIMIT) -> PositionGraph:
    """Enumerate a board game by its registry name; the result is kept for the life of the process.

    Raises UsageError for a game with more than ``limit`` positions.
    """
    walk = _Walk(game, limit)
    walk.visit(load_pyspiel(game).new_initial_state())
    keys, legal, children = zip(*walk.positions, strict=True)
    return PositionGraph(game, len(walk.returns[0]), keys, legal, children, tuple(walk.returns))


@dataclass(slots=True)
class _Walk:
    """A depth-first walk that visits each position once, and numbers it after all its successors."""

    game: str
    limit: int
    numbers: dict[Key, int] = field(default_factory=dict)
    positions: list[tuple[Key, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    returns: list[tuple[float, ...]] = field(default_factory=list)

    def visit(self, state: Any) -> int:
        """Return a position's number; the recursion is as deep as the longest match."""
        key = (state.current_player(), information_state(self.game, state, 0))
        if key in self.numbers:
            return self.numbers[key]
        if len(self.numbers) >= self.limit:
            raise too_many_positions(self.game, self.limit)
        if state.is_terminal():
            self.returns.append(tuple(state.returns()))
            self.numbers[key] = -len(self.returns)
        else:
            legal = tuple(state.legal_actions())
            children = tuple([self.visit(state.child(action)) for action in legal])
            self.numbers[key] = len(self.positions)
            self.positions.append((key, legal, children))
        return self.numbers[key]
