"""Mixtures by the age of snapshots only; payoffs are not read."""

from __future__ import annotations

import numpy as np

from league.theory.solvers.empirical_game import Matrix, Mixture


def uniform(payoffs: Matrix) -> Mixture:
    """Return 1/N for each player [N]: fictitious play's average (Brown 1951)."""
    return np.full(len(payoffs), 1.0 / len(payoffs))


def linear(payoffs: Matrix) -> Mixture:
    """Return weights [N] in proportion to 1, 2, … N, the newest largest.

    CFR+'s linear averaging (Tammelin 2014, arXiv 1407.5042): early, weak play fades, while the
    average still damps cycles among the newest.
    """
    ages = np.arange(1.0, len(payoffs) + 1.0)
    return np.asarray(ages / ages.sum())
