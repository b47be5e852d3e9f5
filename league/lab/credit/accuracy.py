"""How near a rule's gradient is to the exact one: cosine, bias, noise, wrong signs, and how many matches are needed.

Let g be the exact gradient and ĝ_b the rule's gradient on batch b of B independent ones, each of N matches. With
E the expectation over batches,

    cosine       mean over b of ĝ_b · g / (|ĝ_b| |g|)
    bias         min over c ≥ 0 of |c E ĝ − g| / |g| = sqrt(1 − cos²(E ĝ, g)), and 1 where E ĝ points away from g: no
                 number of matches removes it
    noise        sqrt(E |ĝ − E ĝ|²) / |E ĝ|: of one batch; it falls with the square root of N
    wrong sign   share of the turns with a non-zero exact advantage whose credit has the other sign
    matches      N at which the cosine of a batch, about cos(E ĝ, g) / sqrt(1 + noise²), reaches ``ENOUGH``
    sign         N at which ĝ · g > 0, so that a step goes uphill, in ``SURE`` of all batches

The squares |E ĝ|² and (E ĝ · g)² are estimated from pairs of different batches, which makes them unbiased; the bias has
a jackknife interval over batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from league.lab.credit.matches import PlayedBatch
from league.lab.credit.rules import Floats
from league.theory.exact.turn_values import TurnValues
from league.theory.statistics import Estimate, student_quantile

ENOUGH = 0.9  # cosine
SURE = 0.95  # of batches whose step goes uphill
QUANTILE = 1.6448536269514722  # of the normal distribution, at SURE
TINY = 1e-9  # smaller advantages and gradients count as zero


class Accuracy(NamedTuple):
    """The accuracy of a rule's credit; None: it gives no credit here, or too little to distinguish from none."""

    cosine: Estimate | None
    bias: Estimate | None
    noise: float | None
    wrong_sign: float | None
    matches: int | None  # also None: no number is enough
    sign: int | None = None  # also None: the mean of all batches is not surely uphill


class Compared(NamedTuple):
    """A rule's gradients on B batches and the exact gradient, in P parameters."""

    gradients: Floats  # [B, P]
    exact: Floats  # [P]
    batch: int  # matches


def batch_gradient(turns: TurnValues, batch: PlayedBatch, advantages: Floats) -> Floats:
    """Return the mean over matches of Σ_k A_k ∇ log σ(a_k | I_k), in the softmax parameters of all actions [P]."""
    taken = np.bincount(batch.actions, advantages, len(turns.probabilities))
    totals = np.bincount(batch.states, advantages, len(turns.values))
    return np.asarray((taken - totals[turns.states] * turns.probabilities) / batch.matches)


def accuracy(compared: Compared, wrong_sign: float | None) -> Accuracy:
    """Return the measures of gradients, with a share of wrong signs that was counted by turn."""
    gradients, length = compared.gradients, float(np.linalg.norm(compared.exact))
    norms = np.linalg.norm(gradients, axis=1)
    if length <= TINY or not (norms > TINY).any():
        return Accuracy(None, None, None, wrong_sign if (norms > TINY).any() else None, None)
    projected = gradients @ compared.exact / length  # [B]
    cosine = _mean(projected / np.maximum(norms, TINY))
    if len(gradients) < 2:
        return Accuracy(cosine, None, None, wrong_sign, None)
    every, without = _sums(gradients, projected)
    if every.mean_square <= TINY * every.squares / every.batches:  # indistinguishable from zero
        return Accuracy(cosine, None, None, wrong_sign, None)
    squared_noise = max(every.squares / every.batches / every.mean_square - 1.0, 0.0)
    reached, needed = min(every.squared_cosine, 1.0), None
    if reached > ENOUGH**2:
        needed = max(1, math.ceil(compared.batch * squared_noise / (reached / ENOUGH**2 - 1.0)))
    sign = _matches_for_sign(projected, compared.batch)
    return Accuracy(cosine, _bias(every, without), math.sqrt(squared_noise), wrong_sign, needed, sign)


def share_of_wrong_signs(credit: Floats, exact: Floats) -> float | None:
    """Return the share of turns [T] with a non-zero exact advantage whose credit has the other sign."""
    counted = np.abs(exact) > TINY
    return float((credit * exact < 0.0)[counted].mean()) if counted.any() else None


def _mean(values: Floats) -> Estimate:
    """Return the mean of independent values with Student's interval."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, None, None)
    half = student_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def _matches_for_sign(projected: Floats, batch: int) -> int | None:
    """Return after how many matches the length along g is above 0 as often as ``SURE``; None if its mean may not be."""
    mean = _mean(projected)
    if mean.low is None or mean.low <= 0.0:
        return None
    return max(1, math.ceil(batch * float(projected.var(ddof=1)) * (QUANTILE / mean.mean) ** 2))


class _Sums(NamedTuple):
    """The sums that squares are estimated from, over all batches or, as arrays, with each batch left out."""

    batches: int
    products: Any  # Σ ĝ_b · ĝ_c over all pairs, including b = c
    squares: Any  # Σ |ĝ_b|²
    along: Any  # Σ of the lengths along g
    along_squares: Any  # Σ of their squares

    @property
    def mean_square(self) -> Any:
        """|E ĝ|²."""
        return (self.products - self.squares) / (self.batches * (self.batches - 1))

    @property
    def squared_cosine(self) -> Any:
        """cos²(E ĝ, g), negative where E ĝ points away from g; an estimate may lie a little outside −1 to 1."""
        squared = (self.along**2 - self.along_squares) / (self.batches * (self.batches - 1)) / self.mean_square
        return np.where(np.asarray(self.along) < 0.0, -np.abs(squared), squared)[()]


def _sums(gradients: Floats, projected: Floats) -> tuple[_Sums, _Sums]:
    """Return the sums over batches from gradients [B, P] and lengths along g [B], and those without each batch [B]."""
    count, total = len(projected), gradients.sum(axis=0)
    squares, with_all = (gradients**2).sum(axis=1), gradients @ total
    every = _Sums(count, float(total @ total), squares.sum(), projected.sum(), (projected**2).sum())
    without = _Sums(
        count - 1,
        every.products - 2.0 * with_all + squares,
        every.squares - squares,
        every.along - projected,
        every.along_squares - projected**2,
    )
    return every, without


def _bias(every: _Sums, without: _Sums) -> Estimate:
    """Return sqrt(1 − cos²), 0 where the estimate of cos² is above 1, with a jackknife's interval over batches."""
    squared = 1.0 - every.squared_cosine
    if without.batches < 2 or (without.mean_square <= TINY * every.squares / every.batches).any():
        return Estimate(_root(squared), None, None)
    replicates = without.squared_cosine
    error = math.sqrt(without.batches / every.batches * float(((replicates - replicates.mean()) ** 2).sum()))
    half = student_quantile(without.batches) * error
    return Estimate(_root(squared), _root(squared - half), _root(squared + half))


def _root(squared: float) -> float:
    """Return the root of an estimate of a value between 0 and 1."""
    return math.sqrt(min(max(squared, 0.0), 1.0))


def select(columns: np.ndarray, gradients: Sequence[Floats], exact: Floats, batch: int) -> Compared:
    """Return the gradients restricted to the parameters of a mask [P]."""
    return Compared(np.array(gradients)[:, columns], exact[columns], batch)
