"""Bounds by sampled plans hold the true exploitability as often as they say, and meet in it."""

import numpy as np
import pytest

from league.theory.public.bounds import bounds
from league.theory.public.liars_dice import liars_dice
from league.theory.public.measures import exploitability
from tests.league.theory.public.test_public_trees import drawn


def asking(tree, policy):
    asked = set()
    counts = np.bincount(tree.parent[1:], minlength=tree.positions)
    first = 1 + np.concatenate([[0], np.cumsum(counts)[:-1]])

    def ask(nodes, hands):
        for key in zip(nodes.tolist(), hands.tolist(), strict=True):
            assert key not in asked, "asked once"
            asked.add(key)
        return [policy[first[n] : first[n] + counts[n], h] for n, h in zip(nodes, hands, strict=True)]

    return ask, asked


def test_the_truth_lies_between_as_often_as_the_intervals_say():
    """Of 60 intervals at 95 % at least 54 hold it: fewer come once in 50,000 times. Few plans are the hardest case."""
    tree = liars_dice(1, 3)
    held = 0
    for seed in range(60):
        policy = drawn(tree, seed)
        found = bounds(tree, asking(tree, policy)[0], 0.0, seed, plans=2)
        held += found.low <= exploitability(tree, policy) <= found.high
    assert held >= 54


def test_more_plans_bring_the_bounds_together_around_the_truth():
    tree = liars_dice(1, 3)
    policy = drawn(tree, 1)
    truth = exploitability(tree, policy)
    few, many = (bounds(tree, asking(tree, policy)[0], 0.0, 3, plans=plans) for plans in (2, 512))
    assert few.lower.mean < truth < few.upper.mean
    assert many.high - many.low < 0.3 * (few.high - few.low)
    assert many.lower.mean - 0.02 < truth < many.upper.mean + 0.02


def test_against_a_pure_policy_one_plan_is_all_there_is():
    tree = liars_dice(1, 3)
    policy = tree.uniform()
    for _, children in tree.families():
        starts = tree.first_children(children)
        policy[children] = 0.0
        policy[children.start + starts] = 1.0
    found = bounds(tree, asking(tree, policy)[0], 0.0, plans=1)
    truth = exploitability(tree, policy)
    assert found.lower.mean == pytest.approx(truth, abs=1e-12)
    assert found.upper.mean == pytest.approx(truth, abs=1e-12)


def test_few_states_of_a_large_game_are_asked():
    tree = liars_dice(1, 7)
    ask, asked = asking(tree, tree.uniform())
    found = bounds(tree, ask, 0.0, plans=1)
    assert len(asked) < 0.2 * tree.information_states
    assert found.low <= exploitability(tree, tree.uniform()) <= found.high
