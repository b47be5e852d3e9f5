"""``judged_arithmetic``: a solver answers a sum, an evaluator says what it is, and a judge scores the answer 1 to 3.

All see the whole sum. For the score s the solver earns (s - 1) / 2 and the evaluator 1 - (s - 1) / 2, as in CoMAS
(arXiv 2510.08529). By default the game itself scores by the truth: 3 for a right answer; 1 for a wrong one that the
evaluator corrects; 2 for a wrong one that he does not. With ``judge=1`` a seat judges. It earns nothing, but its card
sets a price of 1 for a reply that is no score. With ``score=0`` solver and evaluator earn 1 for being right themselves,
whatever the score: the baseline of CoMAS. With ``right=1`` the truth is paid beside the score, as the reward
``right``: 1 for a right answer, a right evaluation, and a score that is the truth's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from games.common.errors import UsageError
from games.native.arithmetic import ArithmeticGame
from games.native.names import game_name
from games.spec import Utility

SOLVER, EVALUATOR, JUDGE = range(3)
SCORES = ("1", "2", "3")
EVALUATION = "It is "  # before the evaluator's number


class JudgedArithmetic(ArithmeticGame):
    """One match of ``judged_arithmetic``."""

    def __init__(self, terms: int = 2, most: int = 2, judge: int = 0, score: int = 1, right: int = 0) -> None:
        name = game_name(
            "judged_arithmetic", JudgedArithmetic, terms=terms, most=most, judge=judge, score=score, right=right
        )
        if judge not in (0, 1):
            raise UsageError(f"There is no game {name!r}: judge=1 seats a judge, judge=0 does not.")
        if score not in (0, 1):
            raise UsageError(f"There is no game {name!r}: score=1 pays by the judge's score, score=0 by the truth.")
        if right not in (0, 1):
            raise UsageError(
                f"There is no game {name!r}: right=1 pays for the truth beside the score, right=0 does not."
            )
        self._by_score = bool(score)
        actions = max(terms * most + 1, len(SCORES))
        super().__init__(name, terms, most, seats=2 + judge, actions=actions, utility=Utility.GENERAL_SUM)
        self.spec = replace(self.spec, reward_names=("right",) if right else ())

    def named_rewards(self) -> Mapping[str, tuple[float, ...]]:
        """Return who was right, once the match is over."""
        if self.to_act() is not None:
            return {}
        judged = (self.agreement(),) if self.spec.seats > JUDGE else ()
        return {"right": (float(self._is_right(self._replies[SOLVER])), float(self._evaluator_is_right()), *judged)}

    def judge(self) -> int | None:
        """Return the judge's seat; None where the game scores."""
        return JUDGE if self.spec.seats > JUDGE else None

    def agreement(self) -> float:
        """Return 1 if the score is the true one, else 0, once the match is over."""
        return float(self.spec.seats <= JUDGE or self._replies[JUDGE] == self._true_score())

    def position_bias(self) -> None:
        """Return None: there is one order only."""

    def _legal(self, seat: int) -> tuple[str, ...]:
        return SCORES if seat == JUDGE else self._possible_sums(EVALUATION if seat == EVALUATOR else "")

    def _visible_sum(self, seat: int) -> str:
        return self._format_sum()

    def _payoffs(self) -> tuple[float, ...]:
        if not self._by_score:
            return (float(self._is_right(self._replies[SOLVER])), float(self._evaluator_is_right()), 0.0)[
                : self.spec.seats
            ]
        score = int(self._replies[JUDGE] if self.spec.seats > JUDGE else self._true_score())
        earned = (score - 1) / 2
        return (earned, 1 - earned, 0.0)[: self.spec.seats]

    def _true_score(self) -> str:
        """Return the score by the truth."""
        if self._is_right(self._replies[SOLVER]):
            return "3"
        return "1" if self._evaluator_is_right() else "2"

    def _evaluator_is_right(self) -> bool:
        """Return whether the evaluator names the right sum."""
        return self._is_right(self._replies[EVALUATOR].removeprefix(EVALUATION))

    def _optimal(self, seat: int) -> str:
        answer = str(sum(self.sum))
        return (answer, f"{EVALUATION}{answer}", self._true_score() if seat == JUDGE else "")[seat]
