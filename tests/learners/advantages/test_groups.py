"""Groups: what belongs together, what is refused, and which groups teach nothing."""

import pytest
from hypothesis import given
from support.learning.trajectories import batches, credit, trajectory, valued

from games.common.errors import UsageError
from learners.advantages import RULES
from learners.advantages.rule import Need
from learners.groups import GroupKey, flat_groups, group_numbers, groups_of


def test_a_group_is_one_role_at_one_start_with_the_same_players():
    base = trajectory([1.0])
    others = [
        base._replace(game="leduc_poker"),
        base._replace(deal_seed=1),
        base._replace(role="second"),
        base._replace(seat=1),
        base._replace(policy="rival"),
        base._replace(players=("main", "main-000010")),
    ]
    batch = [base, *others, base._replace(match=7), *others]
    groups = groups_of("grpo", batch)
    assert list(groups.values()) == [[i, i + 7] for i in range(7)]
    assert next(iter(groups)) == GroupKey("kuhn_poker", 0, "first", 0, "main", ("main", "main"))
    assert list(group_numbers("grpo", batch)) == [*range(7), *range(7)]


def test_a_short_group_is_refused_with_rule_key_and_sizes():
    with pytest.raises(UsageError) as error:
        groups_of("rloo", [trajectory([1.0], deal_seed=5), *[trajectory([1.0], deal_seed=6)] * 2])
    for part in ("'rloo'", "kuhn_poker, start 5, role first in seat 0, policy main", "has 1", "have 2"):
        assert part in str(error.value)
    assert "matchmaking.group_size" in str(error.value)


def test_uneven_groups_are_refused():
    batch = [*[trajectory([1.0])] * 3, *[trajectory([1.0], deal_seed=1)] * 2]
    with pytest.raises(UsageError, match=r"start 1.*has 2 and others have 3"):
        groups_of("grpo", batch)


NEEDS_GROUPS = {name for name, rule in RULES.items() if Need.GROUPS in rule.needs}


@pytest.mark.parametrize("rule", sorted(NEEDS_GROUPS - {"advantage_alignment", "cory"}))  # they miss a seat first
def test_every_rule_that_needs_groups_refuses_a_lone_trajectory(rule):
    with pytest.raises(UsageError, match=f"'{rule}'.*group_size"):
        credit(rule, [trajectory([1.0])])


@pytest.mark.parametrize(
    "rule", sorted(RULES.keys() - NEEDS_GROUPS - {"regret", "malt"})
)  # these ask what other actions would have paid, or did
def test_the_other_rules_take_a_lone_trajectory(rule):
    batch = [trajectory([1.0])]
    advantages, *_ = credit(rule, batch, None, valued(batch))
    assert len(advantages) == 1


@given(batches())
def test_groups_hold_every_trajectory_once(batch):
    groups = groups_of("grpo", batch)
    assert sorted(index for indices in groups.values() for index in indices) == list(range(len(batch)))


def test_a_seat_without_a_turn_still_counts_in_its_group():
    """Returns 1, 0 and, without a turn, -1: the mean is 0, not 1/2."""
    batch = [trajectory([1.0]), trajectory([0.0]), trajectory(total=-1.0)]
    assert len(groups_of("dr_grpo", batch)) == 1
    assert credit("dr_grpo", batch)[0] == [[1.0], [0.0], []]


def test_groups_of_equal_returns_are_counted_and_kept():
    flat, mixed = [trajectory([0.5])] * 2, [trajectory([1.0], deal_seed=1), trajectory([0.0], deal_seed=1)]
    second = [member._replace(role="second") for member in flat]
    batch = [*flat, *mixed, *second]
    assert flat_groups(batch) == {("kuhn_poker", "first"): (1, 2), ("kuhn_poker", "second"): (1, 1)}
    advantages, *_ = credit("grpo", batch)
    assert [len(advantages_K) for advantages_K in advantages] == [1] * 6
    assert advantages[:2] == [[0.0], [0.0]]
