"""Multinomial logistic regression with a ridge: the linear probe (Alain and Bengio 2016, arXiv 1610.01644).

With features f_n, class counts m_nc and σ the softmax, W and b minimise

    −Σ_n Σ_c m_nc log σ(W f_n + b)_c + shrink/2 · |W|²,

which is convex; L-BFGS finds it from zero. Equal rows are one row with its counts: the sum is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEPS = 1_000  # of L-BFGS
TOLERANCE = 1e-9  # of the gradient's greatest component, for a mean over all examples


class LinearProbe(NamedTuple):
    """A classifier that is linear in standardised features."""

    mean: Floats  # of the features that it was fitted to  # [H]
    scale: Floats  # their standard deviation; 1 where they do not vary  # [H]
    weights: Floats  # W  # [H, C]
    bias: Floats  # b  # [C]

    def probabilities(self, features: Floats) -> Floats:
        """Return the probability of each class for rows of features [N, H].  # [N, C]"""
        return _softmax((features - self.mean) / self.scale @ self.weights + self.bias)


def fit_probe(features: Floats, counts: Floats, shrink: float) -> LinearProbe:
    """Return the probe of rows of features [N, H] that stand for ``counts`` [N, C] examples of each class.

    Features are standardised first, with rows weighted by their counts, so that ``shrink`` does not depend on units.
    """
    from scipy.optimize import minimize  # slow to import

    total, (_, classes) = counts.sum(), counts.shape
    shares = counts.sum(axis=1) / total
    mean = shares @ features
    deviation = np.sqrt(shares @ (features - mean) ** 2)
    scale = np.where(deviation > 1e-12, deviation, 1.0)
    standard = (features - mean) / scale
    width = standard.shape[1]

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights, bias = flat[: width * classes].reshape(width, classes), flat[width * classes :]
        chances = _softmax(standard @ weights + bias)
        error = counts.sum(axis=1, keepdims=True) * chances - counts  # [N, C]
        value = -(counts * np.log(np.maximum(chances, 1e-300))).sum() + 0.5 * shrink * (weights**2).sum()
        gradient = np.concatenate([(standard.T @ error + shrink * weights).ravel(), error.sum(axis=0)])
        return float(value / total), gradient / total

    start = np.zeros(width * classes + classes)
    solution = minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "gtol": TOLERANCE, "ftol": 0}
    )
    return LinearProbe(
        mean, scale, solution.x[: width * classes].reshape(width, classes), solution.x[width * classes :]
    )


def _softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
