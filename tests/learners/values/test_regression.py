"""Ridge regression on hashed features against its closed form, and which turns share features."""

import numpy as np
import pytest
from support.learning.trajectories import turn

from learners.values.features import action_features, state_features
from learners.values.regression import NO_WEIGHTS, FeatureWeights, design, weights_of


@pytest.mark.parametrize("shrink", [0.0, 0.25, 9.0])
def test_weights_are_those_of_the_normal_equations(shrink):
    """They are (X' C X + shrink I)^-1 X' C y, with rows that stand for several turns and features that occur twice."""
    rows = [(7, 3), (3, 3, 100), (7,), (100, 50)]
    ids = [3, 7, 50, 100]
    matrix = np.array([[row.count(one) for one in ids] for row in rows], float)
    targets, counts = np.array([1.0, -2.0, 0.5, 4.0]), np.array([5.0, 1.0, 2.0, 3.0])
    weighted = matrix.T @ np.diag(counts)
    expected = np.linalg.solve(weighted @ matrix + shrink * np.eye(4), weighted @ targets)
    for start in (NO_WEIGHTS, FeatureWeights(np.array([7, 99]), np.array([2.0, 5.0]))):  # they pull to 0 from anywhere
        found = design(rows).fit(targets, counts, shrink, start)
        assert found.ids.tolist() == ids
        assert found.values == pytest.approx(expected, abs=1e-4)


def test_a_feature_without_a_weight_weighs_nothing():
    known = FeatureWeights(np.array([10, 20]), np.array([1.0, 4.0]))
    assert weights_of(known, np.array([5, 10, 15, 20, 25])).tolist() == [0.0, 1.0, 0.0, 4.0, 0.0]
    assert design([(5, 10), (20, 20, 25)]).predict(known).tolist() == [1.0, 8.0]


def shared(one, other):
    """Return how many words of two observations are one feature."""
    return len(set(state_features(turn(observation=one))) & set(state_features(turn(observation=other)))) - 1


def test_a_word_is_its_line_and_its_place_in_it():
    """Besides the constant, texts share the words that stand in the same place of the same line."""
    assert shared("a b\nc d", "a b\nc x") == 3
    assert shared("a b\nc d", "c d\na b") == 0
    assert shared("a b", "b a") == 0
    assert shared("a b", "a b") == 3  # and the whole
    one, other = (action_features(turn(observation="a b")._replace(action=action)) for action in ("left", "right"))
    assert set(one) & set(other) == set(state_features(turn(observation="a b")))
