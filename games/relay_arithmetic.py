"""``relay_arithmetic``: a generator answers a sum, a verifier criticises the answer, a refiner answers anew.

The last term is shown to the verifier only, who cannot answer himself: without critique nobody is right more often
than once in ``most + 1``. With it all are, if the generator answers from the middle of what is possible, since a
critique tells how far off the answer is, up to half of ``most``. All earn 1 if the refiner is right.
The roles are MALT's (arXiv 2412.01928).
"""

from __future__ import annotations

from games.arithmetic import ArithmeticGame
from games.names import game_name
from games.spec import Utility

GENERATOR, VERIFIER, REFINER = range(3)


class RelayArithmetic(ArithmeticGame):
    """One match."""

    def __init__(self, terms: int = 2, most: int = 2) -> None:
        name = game_name("relay_arithmetic", RelayArithmetic, terms=terms, most=most)
        self._reach = (most + 1) // 2  # how far off a critique can tell
        actions = max(terms * most, 2 * self._reach) + 1
        super().__init__(name, terms, most, seats=3, actions=actions, utility=Utility.IDENTICAL)

    def _offers(self, seat: int) -> tuple[str, ...]:
        return self._critiques() if seat == VERIFIER else self._answers()

    def _critiques(self) -> tuple[str, ...]:
        steps = range(1, self._reach + 1)
        return ("right", *(f"{step} too small" for step in steps), *(f"{step} too big" for step in steps))

    def _shown(self, seat: int) -> str:
        return self._written(None if seat == VERIFIER else self._terms - 1)

    def _payoffs(self) -> tuple[float, ...]:
        return (float(self._is_right(self._said[REFINER])),) * 3

    def _optimal(self, seat: int) -> str:
        if seat == GENERATOR:
            return str(sum(self.sum[:-1]) + self._reach)
        if seat == VERIFIER:
            return self._verdict(sum(self.sum) - int(self._said[GENERATOR]))
        size, *side = self._said[VERIFIER].split(" too ")
        error = 0 if not side else int(size) if side == ["small"] else -int(size)
        return str(min(max(int(self._said[GENERATOR]) + error, 0), self._terms * self._most))

    def _verdict(self, short: int) -> str:
        """Return the critique of an answer that is ``short`` too small, or the nearest that there is."""
        if not short:
            return "right"
        return f"{min(abs(short), self._reach)} too {'small' if short > 0 else 'big'}"
