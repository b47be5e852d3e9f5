"""Components of graphs, as scipy finds them, and worked examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csgraph

from league.theory.components import components_of_pairs, connected_components, reachable, strong_components


def graph(size: int, seed: int, density: float) -> np.ndarray:
    return np.random.default_rng(seed).random((size, size)) < density


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12), st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.2, 0.5]))
def test_strong_components_are_those_of_scipy(size: int, seed: int, density: float) -> None:
    edges = graph(size, seed, density)
    _, labels = csgraph.connected_components(edges, directed=True, connection="strong")
    expected = [np.flatnonzero(labels == label).tolist() for label in dict.fromkeys(labels.tolist())]
    assert strong_components(edges) == [nodes for nodes in expected if len(nodes) > 1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12), st.integers(0, 10**6), st.sampled_from([0.02, 0.05, 0.1]))
def test_connected_components_are_those_of_scipy(size: int, seed: int, density: float) -> None:
    edges = graph(size, seed, density)
    edges |= edges.T
    labels, (_, expected) = connected_components(edges), csgraph.connected_components(edges, directed=False)
    assert ((labels[:, None] == labels) == (expected[:, None] == expected)).all()
    assert (np.diff(np.bincount(labels)) <= 0).all()  # the largest first
    assert labels.min(initial=0) == 0


def test_the_larger_component_is_first_and_of_equal_ones_that_of_the_smallest_node() -> None:
    edges = np.zeros((7, 7), bool)
    for a, b in ((0, 6), (1, 4), (4, 3), (2, 5)):
        edges[a, b] = edges[b, a] = True
    assert connected_components(edges).tolist() == [1, 0, 2, 0, 0, 2, 1]


@pytest.mark.parametrize("swapped", [False, True])
def test_pairs_connect_both_ways_whoever_is_named_first(swapped: bool) -> None:
    first, second = np.array([6, 1, 3, 5]), np.array([0, 4, 4, 2])
    pairs = (second, first) if swapped else (first, second)
    assert components_of_pairs(7, *pairs).tolist() == [1, 0, 2, 0, 0, 2, 1]


def test_two_cycles_one_of_which_leads_to_the_other_are_two_components() -> None:
    edges = np.zeros((7, 7), bool)
    for a, b in ((5, 1), (1, 5), (5, 0), (0, 6), (6, 2), (2, 0), (2, 3), (4, 4)):
        edges[a, b] = True
    assert strong_components(edges) == [[0, 2, 6], [1, 5]]
    assert strong_components(edges.T) == [[0, 2, 6], [1, 5]]  # whichever of the two leads to the other
    assert np.flatnonzero(reachable(edges, 1)).tolist() == [0, 1, 2, 3, 5, 6]
    assert np.flatnonzero(reachable(edges, 3)).tolist() == [3]


@pytest.mark.parametrize("size", [0, 1, 4])
def test_without_edges_nobody_is_connected(size: int) -> None:
    assert strong_components(np.zeros((size, size), bool)) == []
    assert connected_components(np.zeros((size, size), bool)).tolist() == list(range(size))
