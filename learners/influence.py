"""Influence: how far one seat's words or actions move the next seat's choice (Jaques et al., arXiv 1810.08647).

In a history h let the seat to act say m with probability π(m | h), and, if another seat has the next turn, let
p(· | h, m) be the distribution of its action, summed over any chance moves in between. With p̄ = Σ_m π(m | h) p(· | h,
m)

    influence(h) = Σ_m π(m | h) KL(p(· | h, m) ‖ p̄)   nats

which is the Jensen–Shannon divergence of the p(· | h, m) with weights π, and the mutual information of message and
answer. It is 0 where the message is ignored.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import fsum, log

Distribution = Mapping[Hashable, float]  # probability by action


def influence(weights: Sequence[float], answers: Sequence[Distribution]) -> float:
    """Return the Jensen–Shannon divergence (nats) of distributions with weights, which need not sum to one.

    Equal distributions are merged first, so that it is 0 exactly where all are equal.
    """
    merged: dict[frozenset[tuple[Hashable, float]], float] = {}
    for weight, answer in zip(weights, answers, strict=True):
        key = frozenset((action, p) for action, p in answer.items() if p > 0.0)
        merged[key] = merged.get(key, 0.0) + weight
    total = fsum(merged.values())
    if len(merged) < 2 or not total > 0.0:
        return 0.0
    mean: dict[Hashable, float] = {}
    for answer_items, weight in merged.items():
        for action, p in answer_items:
            mean[action] = mean.get(action, 0.0) + weight / total * p
    return fsum(weight / total * p * log(p / mean[action]) for row, weight in merged.items() for action, p in row)
