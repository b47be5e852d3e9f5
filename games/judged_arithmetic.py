"""``judged_arithmetic``: a solver answers a sum, an evaluator says what it is, and a judge scores the answer 1 to 3.

All see the whole sum. For the score s the solver earns (s - 1) / 2 and the evaluator 1 - (s - 1) / 2, as in CoMAS
(arXiv 2510.08529). By default the game itself judges by the truth: 3 for a right answer; 1 for a wrong one that the
evaluator puts right; 2 for one that he does not. With ``judge=1`` a seat judges. It earns nothing, but -1 for a reply
that is no score: so its card sets the price of conduct. With ``score=0`` solver and evaluator earn 1 for being right
themselves, whatever the judge says: what CoMAS is compared with.
"""

from __future__ import annotations

from games.arithmetic import ArithmeticGame
from games.errors import UsageError
from games.names import game_name
from games.spec import Utility

SOLVER, EVALUATOR, JUDGE = range(3)
SCORES = ("1", "2", "3")
IT_IS = "It is "


class JudgedArithmetic(ArithmeticGame):
    """One match."""

    def __init__(self, terms: int = 2, most: int = 2, judge: int = 0, score: int = 1) -> None:
        name = game_name("judged_arithmetic", JudgedArithmetic, terms=terms, most=most, judge=judge, score=score)
        if judge not in (0, 1):
            raise UsageError(f"There is no game {name!r}: judge=1 seats a judge, judge=0 does not.")
        if score not in (0, 1):
            raise UsageError(f"There is no game {name!r}: score=1 pays by the judge's score, score=0 by the truth.")
        self._by_score = bool(score)
        actions = max(terms * most + 1, len(SCORES))
        super().__init__(name, terms, most, seats=2 + judge, actions=actions, utility=Utility.GENERAL_SUM)

    def _offers(self, seat: int) -> tuple[str, ...]:
        return SCORES if seat == JUDGE else self._answers(IT_IS if seat == EVALUATOR else "")

    def _shown(self, seat: int) -> str:
        return self._written()

    def _payoffs(self) -> tuple[float, ...]:
        if not self._by_score:
            return (float(self._is_right(self._said[SOLVER])), float(self._shown_right()), 0.0)[: self.spec.seats]
        score = int(self._said[JUDGE] if self.spec.seats > JUDGE else self._judged())
        earned = (score - 1) / 2
        return (earned, 1 - earned, 0.0)[: self.spec.seats]

    def _judged(self) -> str:
        """Return the score that the truth gives."""
        if self._is_right(self._said[SOLVER]):
            return "3"
        return "1" if self._shown_right() else "2"

    def _shown_right(self) -> bool:
        """Return whether the evaluator says what the sum is."""
        return self._is_right(self._said[EVALUATOR].removeprefix(IT_IS))

    def _optimal(self, seat: int) -> str:
        answer = str(sum(self.sum))
        return (answer, f"{IT_IS}{answer}", self._judged() if seat == JUDGE else "")[seat]
