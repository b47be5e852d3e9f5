"""``relay_arithmetic``: a generator answers a sum, a verifier criticises the answer, a refiner answers again.

Only the verifier sees the last term, and he cannot answer himself: without critique nobody is right more often than
once in ``most + 1``. With it the refiner always is, if the generator answers from the middle of what is possible: a
critique says how far off the answer is, up to half of ``most``. All earn 1 if the refiner is right.
The roles are MALT's (arXiv 2412.01928). Its chance is data, too (``games.spec.Enumerable``), so that a small sum has
exact values.
"""

from __future__ import annotations

from typing import Self

from games.native.arithmetic import ArithmeticGame
from games.native.names import game_name
from games.spec import Utility

GENERATOR, VERIFIER, REFINER = range(3)


class RelayArithmetic(ArithmeticGame):
    """One match of ``relay_arithmetic``."""

    def __init__(self, terms: int = 2, most: int = 2) -> None:
        name = game_name("relay_arithmetic", RelayArithmetic, terms=terms, most=most)
        self._reach = (most + 1) // 2  # the largest error that a critique can name
        actions = max(terms * most, 2 * self._reach) + 1
        super().__init__(name, terms, most, seats=3, actions=actions, utility=Utility.IDENTICAL)

    def undealt(self) -> Self:
        """Return a new match without a sum, whose terms chance has yet to give."""
        match = self.copy()
        match.sum, match._replies = (), ()
        return match

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the values that the next term may have, all equally likely; () for a sum that is whole."""
        if len(self.sum) == self._terms:
            return ()
        return tuple((str(term), 1.0 / (self._most + 1)) for term in range(self._most + 1))

    def apply_chance(self, outcome: str) -> None:
        """Let the next term be one of ``chance_outcomes()``. Raises ValueError for any other."""
        if outcome not in dict(self.chance_outcomes()):
            raise ValueError(f"the next term cannot be {outcome!r}")
        self.sum = (*self.sum, int(outcome))

    def _legal(self, seat: int) -> tuple[str, ...]:
        return self._critiques() if seat == VERIFIER else self._possible_sums()

    def _critiques(self) -> tuple[str, ...]:
        steps = range(1, self._reach + 1)
        return ("right", *(f"{step} too small" for step in steps), *(f"{step} too big" for step in steps))

    def _visible_sum(self, seat: int) -> str:
        return self._format_sum(None if seat == VERIFIER else self._terms - 1)

    def _payoffs(self) -> tuple[float, ...]:
        return (float(self._is_right(self._replies[REFINER])),) * 3

    def _optimal(self, seat: int) -> str:
        if seat == GENERATOR:
            return str(sum(self.sum[:-1]) + self._reach)
        if seat == VERIFIER:
            return self._critique(sum(self.sum) - int(self._replies[GENERATOR]))
        size, *direction = self._replies[VERIFIER].split(" too ")
        correction = 0 if not direction else int(size) if direction == ["small"] else -int(size)
        return str(min(max(int(self._replies[GENERATOR]) + correction, 0), self._terms * self._most))

    def _critique(self, missing: int) -> str:
        """Return the critique of an answer that is ``missing`` too small, or the nearest that there is."""
        if not missing:
            return "right"
        return f"{min(abs(missing), self._reach)} too {'small' if missing > 0 else 'big'}"
