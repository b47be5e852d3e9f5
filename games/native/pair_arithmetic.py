"""``pair_arithmetic``: a pioneer answers a sum; an observer, who reads that answer, answers it too.

Each earns 1 for being right. The last term is hidden from the pioneer and the first from the observer: the pioneer is
right once in ``most + 1`` at best, the observer always, if the pioneer's answer reveals the term that he cannot see.
The roles are CORY's (arXiv 2410.06101).
"""

from __future__ import annotations

from games.native.arithmetic import ArithmeticGame
from games.native.names import game_name
from games.spec import Utility

PIONEER, OBSERVER = range(2)


class PairArithmetic(ArithmeticGame):
    """One match of ``pair_arithmetic``."""

    def __init__(self, terms: int = 2, most: int = 2) -> None:
        name = game_name("pair_arithmetic", PairArithmetic, terms=terms, most=most)
        super().__init__(name, terms, most, seats=2, actions=terms * most + 1, utility=Utility.GENERAL_SUM)
        self._middle = most // 2

    def _legal(self, seat: int) -> tuple[str, ...]:
        return self._possible_sums()

    def _visible_sum(self, seat: int) -> str:
        return self._format_sum(self._terms - 1 if seat == PIONEER else 0)

    def _payoffs(self) -> tuple[float, ...]:
        return tuple(float(self._is_right(answer)) for answer in self._replies)

    def _optimal(self, seat: int) -> str:
        if seat == PIONEER:
            return str(sum(self.sum[:-1]) + self._middle)
        return str(min(max(int(self._replies[PIONEER]) - self._middle + self.sum[-1], 0), self._terms * self._most))
