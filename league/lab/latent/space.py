"""The latent strategy space: the clusters of each role's utterances.

Xu et al. 2025, "Learning Strategic Language Agents in the Werewolf Game with Iterative Latent Space Policy
Optimization" (arXiv 2502.04686), cluster embeddings of free-form utterances by k-means; a cluster is then an action.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from games.common.seeds import derive_seed
from league.lab.latent.embedding import Vectors

ITERATIONS = 50  # of one k-means
RESTARTS = 16  # of which the one with the least squared distance is kept

Embed = Callable[[Sequence[str]], Vectors]


def k_means(points: Vectors, clusters: int, seed: int) -> Vectors:
    """Return at most ``clusters`` centres [K, D] of points [N, D], in the order in which the points reach them.

    k-means++ (Arthur and Vassilvitskii 2007) and Lloyd's steps, the best of several starts; equal seeds give equal
    centres. There are at most as many centres as different points, and each has a point.
    """
    different = np.unique(points, axis=0)
    count = min(clusters, len(different))
    if count == len(different):
        return _in_order_of(points, different)
    best, least = different[:count], np.inf
    for start in range(RESTARTS):
        rng = np.random.default_rng(derive_seed(seed, "k-means", start))
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of a cluster that has lost its points
            centres, labels = kmeans2(points, count, iter=ITERATIONS, minit="++", rng=rng)
        distance = float(((points - centres[labels]) ** 2).sum())
        if distance < least - 1e-12:
            best, least = centres[np.unique(labels)], distance
    return _in_order_of(points, best)


def nearest(points: Vectors, centres: Vectors) -> NDArray[np.int64]:
    """Return the index of each point's nearest centre; the first of equally near ones.  # [N]"""
    distances = ((points[:, None] - centres[None]) ** 2).sum(-1)
    return np.asarray((distances <= distances.min(1, keepdims=True) + 1e-12).argmax(1))


def _in_order_of(points: Vectors, centres: Vectors) -> Vectors:
    """Return the centres in the order in which the points come to them."""
    return centres[list(dict.fromkeys(nearest(points, centres).tolist()))]


@dataclass(frozen=True, slots=True)
class LatentSpace:
    """The clusters of each role, by the role's name."""

    embed: Mapping[str, Embed]
    centres: Mapping[str, Vectors]  # [K, D]

    def clusters(self, role: str, texts: Sequence[str]) -> list[int]:
        """Return the nearest cluster of each text that a role says, or might say.  # [N]"""
        return [int(index) for index in nearest(self.embed[role](texts), self.centres[role])]

    def typical(self, role: str, texts: Sequence[str], number: int) -> list[list[str]]:
        """Return, for each cluster of a role, the texts nearest to its centre, the nearest first."""
        points, centres = self.embed[role](texts), self.centres[role]
        labels = nearest(points, centres)
        nearest_texts = []
        for cluster, centre in enumerate(centres):
            members = np.flatnonzero(labels == cluster)
            order = members[np.argsort(np.round(((points[members] - centre) ** 2).sum(-1), 9), kind="stable")]
            nearest_texts.append([texts[index] for index in order[:number]])
        return nearest_texts


def latent_space(
    texts_by_role: Mapping[str, Sequence[str]], embed: Mapping[str, Embed], clusters: int, seed: int
) -> LatentSpace:
    """Return the space of each role's utterances, counting equal ones once."""
    centres = {}
    for role, texts in texts_by_role.items():
        centres[role] = k_means(embed[role](sorted(set(texts))), clusters, derive_seed(seed, "latent", role))
    return LatentSpace(embed, centres)
