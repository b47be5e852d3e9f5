"""Bounds on exploitability in a dark board game from sampled play: the estimators of ``bounds``, on a seat's tries.

A plan is one drawn try for each information state that earlier ones lead to, whatever the other seat has done, so it
comes to few of them. The responses to plans walk all orders of stones that these leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from league.theory.public.bounds import Bounds, bounds_of
from league.theory.public.dark_boards import DarkBoard, gains, response, widths
from league.theory.public.tree import Floats, Integers

Ask = Callable[[int, Integers], Sequence[Sequence[float]]]  # (seat, nodes [Q]) -> chances by edge [Q][edges]


def bounds(board: DarkBoard, ask: Ask, seconds: float, seed: int = 0, plans: int | None = None) -> Bounds:
    """Return bounds after about this many seconds, with the arguments of ``bounds.bounds``."""
    return bounds_of(DarkSampler(board, ask, np.random.default_rng(seed)), seconds, plans)


class DarkSampler:
    """Draws plans and answers them. What was asked is kept, so further draws take less."""

    def __init__(self, board: DarkBoard, ask: Ask, rng: np.random.Generator) -> None:
        self._board, self._ask, self._rng = board, ask, rng
        self._widths = [widths(trie) for trie in board.tries]
        self._chances = [np.zeros(board.edges(seat)) for seat in (0, 1)]  # of what was asked
        self._asked = [np.zeros(len(trie.first), bool) for trie in board.tries]
        self.cells = 0  # of the largest draw

    def draw(self, plans: int) -> tuple[float, float]:
        """Return one draw of the lower and of the upper bound on exploitability."""
        lower, upper = zip(*(self._answer(seat, plans) for seat in (0, 1)), strict=True)
        return sum(lower) / 2.0, sum(upper) / 2.0

    def _answer(self, seat: int, plans: int) -> tuple[float, float]:
        """Return what a response earns in a seat against 2 · ``plans`` plans of the other seat's."""
        board = self._board
        first, second = (gains(board, seat, others) for others in self._reaches(1 - seat, plans))
        crossed = (response(board, seat, first, second) + response(board, seat, second, first)) / 2.0
        return crossed, response(board, seat, (first + second) / 2.0)

    def _reaches(self, seat: int, plans: int) -> tuple[Floats, Floats]:
        """Draw plans of a seat's; return the share of the first half, and of the second, that take each edge.  # [E]"""
        trie, size = self._board.tries[seat], 0
        nodes, plan = np.zeros(2 * plans, np.intp), np.arange(2 * plans)
        found = (np.zeros(self._board.edges(seat)), np.zeros(self._board.edges(seat)))
        while len(nodes):
            size += len(nodes)
            edges = self._drawn(seat, nodes)
            for half, reach in enumerate(found):
                np.add.at(reach, edges[plan // plans == half], 1.0 / plans)
            below = np.concatenate([trie.placed[edges], trie.taken[edges]]).astype(np.intp)
            plan = np.tile(plan, 2)[below >= 0]
            nodes = below[below >= 0]
        self.cells = max(self.cells, 100 * size)  # bytes of the arrays here
        return found

    def _drawn(self, seat: int, nodes: Integers) -> Integers:
        """Draw an edge at each node, of which some are asked first.  # [N]"""
        trie, chances, asked = self._board.tries[seat], self._chances[seat], self._asked[seat]
        new = np.unique(nodes[~asked[nodes]])
        for node, row in zip(new.tolist(), self._ask(seat, new), strict=True):
            chances[trie.first[node] : trie.first[node] + len(row)] = row
        asked[new] = True
        first, number = trie.first[nodes].astype(np.intp), self._rng.random(len(nodes))
        left = self._widths[seat][nodes] - 1
        choice = np.zeros(len(nodes), np.intp)
        passed = np.zeros(len(nodes))
        for column in range(int(left.max())):  # the last edge takes what rounding leaves
            passed += np.where(column < left, chances[first + np.minimum(column, left)], 0.0)
            choice += (column < left) & (number >= passed)
        return first + choice
