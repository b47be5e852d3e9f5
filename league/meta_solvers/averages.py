"""Mixtures that look at no payoff, only at how old a snapshot is."""

from __future__ import annotations

import numpy as np

from league.meta_solvers.empirical import Matrix, Mixture


def uniform(payoffs: Matrix) -> Mixture:
    """Return 1/N each: fictitious play's average (Brown 1951)."""
    return np.full(len(payoffs), 1.0 / len(payoffs))


def linear(payoffs: Matrix) -> Mixture:
    """Return weights in proportion to 1, 2, … N, the newest largest.

    CFR+'s linear averaging (Tammelin 2014, arXiv 1407.5042): what was played early, and badly,
    fades, while the average still damps the cycles of the newest.
    """
    ages = np.arange(1.0, len(payoffs) + 1.0)
    return np.asarray(ages / ages.sum())
