"""Significant cycles of a population: "rock beats scissors beats paper beats rock".

Players are the nodes of a graph, with an edge from i to j where i's margin over j is significantly above 0.
If players can be ranked the graph is acyclic, so a cycle is exactly what no rating can express. All players of
a strongly connected component lie on cycles; of each component the shortest are returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from league.theory.components import strong_components


@dataclass(frozen=True, slots=True)
class Cycle:
    """Players each of whom beats the next; the last beats the first."""

    players: tuple[str, ...]  # at least three, from the one that comes first in the population
    margin: float  # of the narrowest win, (mean payoff - the other's) / 2, in the game's units a match

    def __str__(self) -> str:
        return " beats ".join([*self.players, self.players[0]])


def find_cycles(
    names: Sequence[str],
    payoffs: NDArray[np.float64],
    errors: NDArray[np.float64] | None = None,
    confidence: float = 0.95,
    limit: int = 20,
    deals: NDArray[np.int64] | None = None,
) -> list[Cycle]:
    """Return cycles, the shortest and clearest first, so that every player on any cycle is on one of them.

    ``payoffs`` [N, N] and their standard ``errors`` [N, N] (None: exact) are row's against column, nan where
    a pair never met. The errors were measured on this many ``deals`` [N, N] (None: they are known). ``confidence`` is
    the probability that no edge at all is there by chance: Bonferroni over the pairs that met. At most ``limit`` cycles
    a component are returned, and only beyond that are players left out. Raises ValueError for shapes that do not fit.
    """
    beats, margins = significant_wins(payoffs, errors, confidence, deals)
    if len(names) != len(beats):
        raise ValueError(f"expected a name for each of {len(beats)} players, got {len(names)}")
    cycles: list[Cycle] = []
    for component in strong_components(beats):
        unnamed = set(component)
        named: list[Cycle] = []
        while unnamed and len(named) < limit:
            nodes = _shortest_cycle(beats, min(unnamed))
            unnamed -= set(nodes)
            first = nodes.index(min(nodes))
            nodes = [*nodes[first:], *nodes[:first]]
            margin = min(float(margins[a, b]) for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True))
            named.append(Cycle(tuple(names[node] for node in nodes), margin))
        cycles += named
    return sorted(cycles, key=lambda cycle: (len(cycle.players), -cycle.margin))


def significant_wins(
    payoffs: NDArray[np.float64],
    errors: NDArray[np.float64] | None,
    confidence: float,
    deals: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return who beats whom [N, N], and the margins (P - P') / 2 [N, N], nan for pairs that never met.

    The two payoffs of a pair come from the same matches, so their errors are not independent; half
    their sum bounds the margin's, and is it exactly in a zero-sum game. With an unknown error (nan) nobody wins.
    An error that was measured on d deals is one itself, so a win must be beyond Student's quantile with d - 1 degrees
    of freedom (and one deal shows nothing); beyond the normal one, 15 % of level tables of 10 deals a pair show a win.
    """
    if payoffs.ndim != 2 or payoffs.shape[0] != payoffs.shape[1]:
        raise ValueError(f"expected payoffs of shape [N, N], got {list(payoffs.shape)}")
    if errors is not None and errors.shape != payoffs.shape:
        raise ValueError(f"expected standard errors of shape {list(payoffs.shape)}, got {list(errors.shape)}")
    if deals is not None and deals.shape != payoffs.shape:
        raise ValueError(f"expected deals of shape {list(payoffs.shape)}, got {list(deals.shape)}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"expected a confidence between 0 and 1, got {confidence}")
    margins = (payoffs - payoffs.T) / 2.0
    pairs = int(np.triu(~np.isnan(margins), 1).sum())
    below = 1.0 - (1.0 - confidence) / (2.0 * max(pairs, 1))
    if errors is None:
        return margins > 0.0, margins
    spread = (errors + errors.T) / 2.0
    wins = margins > NormalDist().inv_cdf(below) * spread
    if deals is not None and wins.any():
        from scipy.special import stdtrit  # takes a tenth of a second to import

        freedom = deals[wins] - 1
        wins[wins] = (freedom > 0) & (margins[wins] > stdtrit(np.maximum(freedom, 1), below) * spread[wins])
    return wins, margins


def _shortest_cycle(beats: NDArray[np.bool_], start: int) -> list[int]:
    """Return the nodes of a shortest cycle through ``start``, which must lie on one, by breadth-first search."""
    parents = np.full(len(beats), -1)
    frontier = np.array([start])
    while parents[start] < 0:
        reached = np.flatnonzero(beats[frontier].any(axis=0) & (parents < 0))
        parents[reached] = frontier[beats[np.ix_(frontier, reached)].argmax(axis=0)]
        frontier = reached
    nodes = [int(parents[start])]
    while nodes[-1] != start:
        nodes.append(int(parents[nodes[-1]]))
    return nodes[::-1]
