"""GDPO: several rewards normalised apart. Worked numbers of arXiv 2601.05242, with the population's spread."""

import pytest
from support.learning.trajectories import credit, trajectory, turn

from arena.records import TokenTrace
from learners.advantages import RULES, assign_credit, rule_metrics
from learners.rewards import BREVITY, RETURN, reward_named
from learners.trajectories import Evidence

SECOND = "right"


def paid(returned, second, **fields):
    """Return a trajectory of one turn with a return and a second reward."""
    one = trajectory([returned], **fields)
    return one._replace(turns=tuple(t._replace(named=((SECOND, second),) if second else ()) for t in one.turns))


def groups_of(*starts, **fields):
    """Return groups of pairs (return, second reward)."""
    return [
        paid(*pair, deal_seed=start, match=10 * start + place, **fields)
        for start, pairs in enumerate(starts)
        for place, pair in enumerate(pairs)
    ]


def flat(advantages):
    return [row[0] for row in advantages]


# One of two pairs comes to (1, 0), the other to (1, 1); the other match of each group to (0, 0).
PAIRS = groups_of([(0.0, 0.0), (1.0, 0.0)], [(0.0, 0.0), (1.0, 1.0)])


def test_pairs_of_rewards_that_grpo_cannot_tell_apart():
    """Summed first: 0, 1 and 0, 2 both are -1 and 1. Apart: -1, 1 and -2, 2; over the batch, whose spread is the root
    of (1 + 1 + 4 + 4) / 4, they are -0.632, 0.632, -1.265 and 1.265.
    """
    summed = [t._replace(match_return=t.match_return + reward_named(t, SECOND)) for t in PAIRS]
    assert flat(credit("grpo", summed).advantages) == pytest.approx([-1.0, 1.0, -1.0, 1.0], abs=1e-5)
    weights = {SECOND: 1.0}
    apart = flat(credit("gdpo", PAIRS, weights=weights, normalise_batch=False).advantages)
    assert apart == pytest.approx([-1.0, 1.0, -2.0, 2.0], abs=1e-5)
    batch = flat(credit("gdpo", PAIRS, weights=weights).advantages)
    assert batch == pytest.approx([-(0.4**0.5), 0.4**0.5, -(1.6**0.5), 1.6**0.5], abs=1e-5)


def test_one_reward_alone_is_grpo():
    """Of the return to the last bit; of the second as if that were the return; the batch's spread is 1 within 1e-5."""
    batch = groups_of([(0.0, 3.0), (1.0, 1.0), (1.0, 0.0)], [(4.0, 0.0), (0.0, 1.0), (2.0, 5.0)])
    expected = credit("grpo", batch).advantages
    assert credit("gdpo", batch, normalise_batch=False).advantages == expected
    assert flat(credit("gdpo", batch).advantages) == pytest.approx(flat(expected), abs=1e-5)
    second = credit("gdpo", batch, weights={RETURN: 0.0, SECOND: 1.0}, normalise_batch=False).advantages
    assert second == credit("grpo", [t._replace(match_return=reward_named(t, SECOND)) for t in batch]).advantages


def test_weights_weigh_what_was_normalised_apart():
    """A reward in other units weighs the same; one with the weight 3 has three times the say, before the batch's."""
    batch = groups_of([(0.0, 1.0), (1.0, 0.0)])
    large = groups_of([(0.0, 1000.0), (1.0, 0.0)])
    weights = {RETURN: 3.0, SECOND: 1.0}
    found = flat(credit("gdpo", batch, weights=weights, normalise_batch=False).advantages)
    assert found == pytest.approx([-2.0, 2.0], abs=1e-4)
    assert flat(credit("gdpo", large, weights=weights, normalise_batch=False).advantages) == pytest.approx(
        found, abs=1e-4
    )
    assert flat(credit("gdpo", batch, weights={RETURN: 1.0, SECOND: 1.0}).advantages) == [0.0, 0.0]


def test_the_batch_is_that_of_a_role_and_policy():
    """A second role with spreads of its own leaves the first as it is alone."""
    both = [*PAIRS, *groups_of([(0.0, 0.0), (1.0, 1.0)], role="second", seat=1)]
    weights = {SECOND: 1.0}
    alone = credit("gdpo", PAIRS, weights=weights).advantages
    assert credit("gdpo", both, weights=weights).advantages[:4] == alone
    assert flat(credit("gdpo", both, weights=weights).advantages[4:]) == pytest.approx([-1.0, 1.0], abs=1e-5)


def test_weights_move_evenly_and_are_reported():
    """From 0 to 1 over 4 iterations: 0, 1/4, 1/2, 3/4, 1, 1. The return's stays."""
    state, seen = {}, []
    moving = {"weights": {SECOND: 0.0}, "weights_end": {SECOND: 1.0}, "over": 4, "normalise_batch": False}
    for _ in range(6):
        advantages, _, state = credit("gdpo", PAIRS, state, **moving)
        seen.append(advantages[3][0])
    assert seen == pytest.approx([1.0, 1.25, 1.5, 1.75, 2.0, 2.0], abs=1e-5)
    assert state == {"calls": 6, "weights": {RETURN: 1.0, SECOND: 1.0}}
    moving = RULES["gdpo"].settings(weights_end={SECOND: 1.0}, over=4)
    credited = assign_credit(PAIRS, [Evidence()] * 4, {"gdpo": {"calls": 1}}, lambda *_: "gdpo", lambda _: moving)
    reported = rule_metrics(PAIRS, credited, lambda *_: "gdpo")
    assert reported == {"credit/gdpo/weight/return": 1.0, "credit/gdpo/weight/right": 0.25}
    assert credit("gdpo", PAIRS).state == {}


def test_brevity_is_the_price_of_every_reply_of_the_seat():
    replies = [TokenTrace("main", (0,), ids, (-0.1,) * len(ids), None) for ids in [(1, 2, 3), (4,)]]
    one = trajectory([0.0, 1.0])._replace(turns=tuple(turn(trace=trace) for trace in replies))
    assert reward_named(one, BREVITY) == -4.0
    assert reward_named(one, RETURN) == 1.0
    assert reward_named(one, "unknown") == 0.0
    with pytest.raises(ValueError, match="only language models can be trained"):
        reward_named(trajectory([1.0]), BREVITY)


def test_all_weights_zero_are_refused():
    with pytest.raises(ValueError, match="all weights are 0"):
        credit("gdpo", PAIRS, weights={RETURN: 0.0})


@pytest.mark.parametrize("other", [{"policy": "probe"}, {"game": "leduc_poker"}, {"role": "second", "seat": 1}])
def test_what_another_policy_or_game_earns_is_no_part_of_the_batch(other):
    """Its spread of a hundred would shrink ours, whether it comes before, after or between."""
    wide = groups_of([(0.0, 0.0), (100.0, 1.0)], [(0.0, 0.0), (1.0, 300.0)], **other)
    weights = {SECOND: 1.0}
    alone = flat(credit("gdpo", PAIRS, weights=weights).advantages)
    mixed = [one for pair in zip(wide, PAIRS, strict=True) for one in pair]
    assert flat(credit("gdpo", mixed, weights=weights).advantages)[1::2] == pytest.approx(alone, abs=1e-9)
