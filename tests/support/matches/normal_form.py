"""Small games in normal form."""

import itertools

import numpy as np

from league.theory.solvers import EmpiricalGame


def matching_pennies() -> EmpiricalGame:
    """Three players: the first wants to match the second, the second the third, the third not to match the first."""
    values = np.zeros((3, 2, 2, 2))
    for a, b, c in itertools.product(range(2), repeat=3):
        values[:, a, b, c] = 2 * (a == b) - 1, 2 * (b == c) - 1, 2 * (c != a) - 1
    return EmpiricalGame(values)
