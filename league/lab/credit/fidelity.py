"""How faithful credit is turn by turn: its cosine with the exact advantage, and its variance for equal turns.

Over the T turns of all batches, with c_k the credit of turn k, A_k the exact advantage of its action, and c̄(I, a) the
mean credit of all turns in which action a was taken at information state I,

    fidelity = Σ c_k A_k / sqrt(Σ c_k² Σ A_k²)        the cosine; 1 is in proportion
    variance = Σ (c_k − c̄(I_k, a_k))² / (T − G)       within the G pairs (I, a) that were met

in squared units of the trajectories' returns. Facts that a seat cannot know, such as the others' cards, add to the
variance: the exact advantage is the mean over them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Fidelity(NamedTuple):
    """The measures of a rule's credit; None where they cannot be determined."""

    fidelity: float | None
    variance: float | None


def fidelity(credit: Floats, exact: Floats, actions: NDArray[np.intp]) -> Fidelity:
    """Return the measures of credit [T] against exact advantages [T], given the action of each turn [T]."""
    squares = float((credit**2).sum() * (exact**2).sum())
    return Fidelity(float(credit @ exact) / math.sqrt(squares) if squares > 0.0 else None, _within(credit, actions))


def _within(credit: Floats, actions: NDArray[np.intp]) -> float | None:
    _, groups, counts = np.unique(actions, return_inverse=True, return_counts=True)
    if len(credit) == len(counts):  # no action occurred twice
        return None
    means = np.bincount(groups, credit) / counts
    return float(((credit - means[groups]) ** 2).sum()) / (len(credit) - len(counts))
