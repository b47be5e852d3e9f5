"""Components of small dense graphs, by breadth-first search over rows of the adjacency matrix.

``scipy.sparse.csgraph`` has the same, but takes a fifth of a second to import: as long as a whole command.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Edges = NDArray[np.bool_]  # [from, to], both N
Ints = NDArray[np.int64]


def reachable(edges: Edges, start: int) -> NDArray[np.bool_]:
    """Return which nodes a path from ``start`` reaches, itself included [N]."""
    reached = np.zeros(len(edges), bool)
    reached[start] = True
    frontier = np.array([start])
    while len(frontier):
        new = edges[frontier].any(axis=0) & ~reached
        reached |= new
        frontier = np.flatnonzero(new)
    return reached


def connected_components(edges: Edges) -> Ints:
    """Return which component of an undirected graph each node is in [N].

    ``edges`` are symmetric. The largest component is 0; of equally large ones, that of the smallest node comes first.
    """
    labels, number = np.full(len(edges), -1, np.int64), 0
    while (left := labels < 0).any():
        labels[reachable(edges, int(left.argmax()))] = number
        number += 1
    order = np.argsort(-np.bincount(labels, minlength=number), kind="stable")
    return np.asarray(np.argsort(order)[labels], np.int64)


def components_of_pairs(number: int, first: Ints, second: Ints) -> Ints:
    """Return which component each of ``number`` players is in [N], where pairs of them met [K], as above."""
    met = np.zeros((number, number), bool)
    met[first, second] = met[second, first] = True
    return connected_components(met)


def strong_components(edges: Edges) -> list[list[int]]:
    """Return the strongly connected components with more than one node, nodes ascending, by their smallest nodes.

    Nodes that no edge enters or leaves are on no cycle and go first. What is left is split by forward and backward
    search (Fleischer, Hendrickson and Pınar 2000).
    """
    components = []
    left = _trimmed(edges, np.arange(len(edges)))
    while len(left):
        among = edges[np.ix_(left, left)]
        strong = reachable(among, 0) & reachable(among.T, 0)
        if strong.sum() > 1:
            components.append(left[strong].tolist())
        left = _trimmed(edges, left[~strong])
    return components


def _trimmed(edges: Edges, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nodes without those that none of the others' edges enters, or none leaves, again and again."""
    while len(nodes):
        among = edges[np.ix_(nodes, nodes)] & ~np.eye(len(nodes), dtype=bool)
        kept = among.any(axis=0) & among.any(axis=1)
        if kept.all():
            break
        nodes = nodes[kept]
    return nodes
