"""malt, cory and comas: numbers by hand, plain loops, and batches that are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import credit, trajectory
from support.learning.trees import tree

from games.common.errors import UsageError


def advantages(rule, batch):
    return [advantages_K[0] for advantages_K in credit(rule, batch)[0]]


def test_a_tree_worked_by_hand():
    """Leaves 1 1 | 1 0 || 0 0 | 1 0: critiques 1, 1/2, 0, 1/2; answers 3/4, 1/4."""
    advantages_N = advantages("malt", tree([1, 1, 1, 0, 0, 0, 1, 0]))
    assert advantages_N[0::3] == pytest.approx([0.25] * 4 + [-0.25] * 4)
    assert advantages_N[1::3] == pytest.approx([0.25, 0.25, -0.25, -0.25, -0.25, -0.25, 0.25, 0.25])
    assert advantages_N[2::3] == pytest.approx([0, 0, 0.5, -0.5, 0, 0, 0.5, -0.5])


def test_trees_of_other_players_on_the_same_deal_are_other_trees():
    """Two line-ups, mixed leaf by leaf, whose branches are numbered alike: each is credited as if it were alone."""
    ours = tree([1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    theirs = [t._replace(players=("main", "old", "main")) for t in tree([0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])]
    alone = advantages("malt", ours), advantages("malt", theirs)
    mixed = advantages("malt", [one for both in zip(ours, theirs, strict=True) for one in both])
    assert (mixed[::2], mixed[1::2]) == alone
    assert alone[0] != alone[1]


def test_every_reply_counts_once_however_many_matches_go_through_it():
    weights = credit("malt", tree([0.0] * 27, n=3)).weights
    assert weights == pytest.approx([1 / 9, 1 / 3, 1.0] * 27)
    assert sum(weights[0::3]) == pytest.approx(3)


@settings(max_examples=30)
@given(st.integers(2, 3), st.lists(st.integers(0, 4), min_size=27, max_size=27), st.randoms())
def test_malt_is_the_plain_recursion_whatever_the_order(n, leaves, rng):
    outcomes = leaves[: n**3]
    batch = tree(outcomes, n, start=1) + tree(outcomes[::-1], n, start=2, first=1000)
    order = list(range(len(batch)))
    rng.shuffle(order)
    advantages_N = advantages("malt", [batch[i] for i in order])

    def value(path, leaves):
        if len(path) == 3:
            return leaves[path[0] * n * n + path[1] * n + path[2]]
        return sum(value((*path, k), leaves) for k in range(n)) / n

    for i, advantage in zip(order, advantages_N, strict=True):
        t = batch[i]
        leaf, leaves = (t.match, outcomes) if t.deal_seed == 1 else (t.match - 1000, outcomes[::-1])
        path = (leaf // n // n, leaf // n % n, leaf % n)[: t.seat + 1]
        siblings = [value((*path[:-1], k), leaves) for k in range(n)]
        assert advantage == pytest.approx(value(path, leaves) - sum(siblings) / n, abs=1e-12)


@pytest.mark.parametrize("broken", [lambda b: b[3:], lambda b: b[:12], lambda b: [t._replace(branch=()) for t in b]])
def test_malt_refuses_what_is_not_a_whole_tree(broken):
    with pytest.raises(UsageError, match=r"matchmaking\.tree"):
        credit("malt", broken(tree([0.0] * 8)))


def pairs(*matches):
    """Return pioneers and observers of one start with these returns."""
    return [
        trajectory([r], role=role, seat=seat, match=k, players=("a", "b"), policy="ab"[seat])
        for k, returns in enumerate(matches)
        for seat, (role, r) in enumerate(zip(("pioneer", "observer"), returns, strict=True))
    ]


def test_cory_pays_both_the_sum():
    """Sums 2, 1, 1, 0 have mean 1 and spread 0.70711."""
    batch = pairs((1, 1), (1, 0), (0, 1), (0, 0))
    expected = [1.41421, 1.41421, 0, 0, 0, 0, -1.41421, -1.41421]
    assert advantages("cory", batch) == pytest.approx(expected, abs=1e-4)


def test_cory_refuses_a_match_of_which_one_seat_trains():
    with pytest.raises(UsageError, match="1 of 2 seats"):
        credit("cory", pairs((1, 1), (0, 0))[::2])


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=9), st.integers(-5, 5))
def test_cory_gives_all_seats_the_same_whatever_is_added(matches, shift):
    plain = advantages("cory", pairs(*matches))
    assert plain[::2] == plain[1::2]
    assert sum(plain) == pytest.approx(0, abs=1e-9)
    assert advantages("cory", pairs(*((a + shift, b) for a, b in matches))) == pytest.approx(plain, abs=1e-6)


def test_comas_compares_roles_over_the_whole_batch():
    """Scores 3, 2, 1, 1: solvers 1, 1/2, 0, 0 with mean 0.375 and spread 0.41458; evaluators the opposite."""
    earned = [1.0, 0.5, 0.0, 0.0]
    batch = [
        trajectory([r if role == "solver" else 1 - r], role=role, seat=seat, match=k, deal_seed=k)
        for k, r in enumerate(earned)
        for seat, role in enumerate(("solver", "evaluator"))
    ]
    expected = [1.50756, 0.30151, -0.90453, -0.90453]
    assert advantages("comas", batch)[::2] == pytest.approx(expected, abs=1e-4)
    assert advantages("comas", batch)[1::2] == pytest.approx([-a for a in expected], abs=1e-4)
