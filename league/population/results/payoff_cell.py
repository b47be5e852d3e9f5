"""The payoff table's cell for a pair in one role: weighted sums, and how certain they make a mean.

Matches of one deal share its luck, so a mean's variance is clustered by deal: with N matches, of which n_d with mean
y_d were played on deal d, and ȳ the mean of all, Var(ȳ) = G/(G−1) Σ_d n_d² (y_d − ȳ)² / N² (Liang and Zeger 1986). With
weights w_d after decay, N = Σ w_d n_d and G is Kish's (Σ w_d n_d)² / Σ (w_d n_d)².
"""

from __future__ import annotations

from dataclasses import dataclass

from league.theory.statistics import student_quantile


@dataclass(slots=True)
class PayoffCell:
    """Weighted sums as of ``iteration``: those of a ``Result``, products of two sums with squared weights."""

    n: float = 0.0
    sum_return: float = 0.0
    sumsq_return: float = 0.0
    sum_score: float = 0.0
    sumsq_weight: float = 0.0  # of single matches
    iteration: int = 0
    sumsq_matches: float = 0.0
    sum_matches_return: float = 0.0
    sumsq_score: float = 0.0
    sum_matches_score: float = 0.0

    def decayed(self, keep: float) -> PayoffCell:
        """Return the sums after each match's weight is multiplied by ``keep``."""
        return PayoffCell(
            self.n * keep,
            self.sum_return * keep,
            self.sumsq_return * keep * keep,
            self.sum_score * keep,
            self.sumsq_weight * keep * keep,
            self.iteration,
            self.sumsq_matches * keep * keep,
            self.sum_matches_return * keep * keep,
            self.sumsq_score * keep * keep,
            self.sum_matches_score * keep * keep,
        )

    def plus(
        self,
        n: float,
        sum_return: float,
        sumsq_return: float,
        sum_score: float,
        iteration: int,
        *by_deal: float | None,
    ) -> PayoffCell:
        """Return the sums with those of another result, as a ``Result`` orders them; its matches have full weight."""
        if None in by_deal:  # every match had a deal of its own; no score's square is more than the score
            by_deal = (n, sum_return, sum_score, sum_score)
        matches2, matches_return, score2, matches_score = (value for value in by_deal if value is not None)
        return PayoffCell(
            self.n + n,
            self.sum_return + sum_return,
            self.sumsq_return + sumsq_return,
            self.sum_score + sum_score,
            self.sumsq_weight + n,
            iteration,
            self.sumsq_matches + matches2,
            self.sum_matches_return + matches_return,
            self.sumsq_score + score2,
            self.sum_matches_score + matches_score,
        )

    @property
    def deals(self) -> float:
        """Return Kish's effective number of deals."""
        return self.n * self.n / self.sumsq_matches

    def variance(self, sumsq: float, sum_matches: float, mean: float) -> float:
        """Return the variance of a mean over matches, clustered by deal; there must be more than one."""
        deviations = sumsq - 2.0 * mean * sum_matches + mean * mean * self.sumsq_matches  # Σ (w n (y - mean))²
        rounding = 1e-12 * (sumsq + mean * mean * self.sumsq_matches)
        spread = deviations if deviations > rounding else 0.0
        return self.deals / (self.deals - 1.0) * spread / (self.n * self.n)

    def effective_n(self) -> float:
        """Return how many independent matches would be as certain of the score.

        Korn and Graubard (Survey Methodology 24, 1998): p (1 - p) / Var(p), less where the variance itself is known
        from few deals. It is at least the number of deals, as if all matches of a deal ended alike, and so where the
        score has no spread; and at most the number of matches, both as Kish counts them.
        """
        deals, matches = self.deals, self.n * self.n / self.sumsq_weight
        if not deals < matches or deals <= 1.0:
            return min(deals, matches)
        score = self.sum_score / self.n
        variance = self.variance(self.sumsq_score, self.sum_matches_score, score)
        if not variance > 0.0:
            return deals
        few = student_quantile(matches - 1.0) / student_quantile(deals - 1.0)
        return min(max(score * (1.0 - score) / variance * few * few, deals), matches)
