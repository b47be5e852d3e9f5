"""Ridge regression on hashed features: w minimises sum over rows of n (w · f − y)² + shrink |w|²."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.values.features import Features

Floats = NDArray[np.float64]
TOLERANCE = 1e-6
STEPS = 100  # of the solver


class FeatureWeights(NamedTuple):
    """A weight for each feature, by ascending id. Features that are not here weigh 0."""

    ids: NDArray[np.int64]  # [F]
    values: Floats  # [F]

    def to_json(self) -> list[Any]:
        """Return JSON data that ``from_json`` reads back equal."""
        return [self.ids.tolist(), self.values.tolist()]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> FeatureWeights:
        """Return what ``to_json`` wrote."""
        return cls(np.array(data[0], np.int64), np.array(data[1], np.float64))


NO_WEIGHTS = FeatureWeights(np.zeros(0, np.int64), np.zeros(0))


class Design(NamedTuple):
    """Rows of features as a sparse matrix."""

    matrix: Any  # CSR: how often each feature is in each row  # [N, F]
    ids: NDArray[np.int64]  # [F]

    def fit(self, targets: Floats, counts: Floats, shrink: float, start: FeatureWeights = NO_WEIGHTS) -> FeatureWeights:
        """Return the weights for targets [N] that stand for ``counts`` [N] turns each, starting from ``start``."""
        from scipy.sparse import diags, identity, vstack  # takes a fifth of a second to import
        from scipy.sparse.linalg import lsmr

        roots, features = np.sqrt(counts), len(self.ids)
        # Rows of their own pull weights to 0: ``damp`` would pull them to ``start``.
        rows = vstack([diags(roots) @ self.matrix, shrink**0.5 * identity(features)])
        goals = np.concatenate([roots * targets, np.zeros(features)])
        first = weights_of(start, self.ids)
        solution = lsmr(rows, goals, atol=TOLERANCE, btol=TOLERANCE, maxiter=STEPS, x0=first)[0]
        return FeatureWeights(self.ids, np.asarray(solution))

    def predict(self, weights: FeatureWeights) -> Floats:
        """Return the sum of each row's weights [N]."""
        return np.asarray(self.matrix @ weights_of(weights, self.ids))


def design(rows: Sequence[Features]) -> Design:
    """Return rows of features as a matrix; a row may have a feature several times."""
    from scipy.sparse import csr_matrix

    flat = np.fromiter(chain.from_iterable(rows), np.int64)
    ids, columns = np.unique(flat, return_inverse=True)
    starts = np.cumsum([0, *map(len, rows)])
    return Design(csr_matrix((np.ones(len(flat)), columns, starts), (len(rows), len(ids))), ids)


def weights_of(weights: FeatureWeights, ids: NDArray[np.int64]) -> Floats:
    """Return the weights of features by id [F]."""
    if not len(weights.ids):
        return np.zeros(len(ids))
    indices = np.minimum(np.searchsorted(weights.ids, ids), len(weights.ids) - 1)
    return np.where(weights.ids[indices] == ids, weights.values[indices], 0.0)
