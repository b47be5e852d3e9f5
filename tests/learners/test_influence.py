"""Influence of messages on answers, against divergences in closed form."""

import math

import numpy as np
import pytest

from learners.influence import influence


def entropy(row):
    return -sum(p * math.log(p) for p in row if p > 0.0)


def test_two_answers_that_never_agree_are_worth_log_2_and_equal_ones_exactly_nothing():
    assert influence([1.0, 1.0], [{"a": 1.0}, {"b": 1.0}]) == pytest.approx(math.log(2))
    odd = {"a": 0.1, "b": 0.2, "c": 0.7}
    assert influence([0.3, 0.3, 0.4], [odd, dict(odd), odd | {"d": 0.0}]) == 0.0
    assert influence([1.0], [odd]) == influence([], []) == 0.0


def test_it_is_the_entropy_of_the_mean_answer_less_the_mean_entropy():
    """Lin 1991, Divergence measures based on the Shannon entropy."""
    rng = np.random.default_rng(1)
    weights, rows = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(3), size=4)
    expected = entropy(weights @ rows) - sum(w * entropy(row) for w, row in zip(weights, rows, strict=True))
    found = influence((7.0 * weights).tolist(), [dict(enumerate(row.tolist())) for row in rows])
    assert found == pytest.approx(expected)
