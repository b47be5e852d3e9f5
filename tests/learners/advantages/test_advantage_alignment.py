"""Advantage alignment against numbers worked by hand, plain loops, and what must hold for any batch."""

from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.learning.trajectories import credit, quarters, trajectory, turn

from games.common.errors import UsageError

few = settings(max_examples=25)


def seats(match, first, second, start=0):
    """Return both trajectories of a match, with these rewards."""
    both = enumerate((("first", first), ("second", second)))
    return [trajectory(r, role=role, seat=seat, match=match, deal_seed=start) for seat, (role, r) in both]


def aligned(batch, gamma=1.0, beta=1.0):
    return credit("advantage_alignment", batch, gamma=gamma, weight=beta)[0]


def near(advantages):
    return [pytest.approx(advantages_K, abs=1e-9) for advantages_K in advantages]


@st.composite
def matches(draw):
    """Return groups of matches of up to four rounds; a seat may leave before the other, or before its first turn."""
    size = draw(st.integers(2, 4))
    rewards = st.lists(quarters, max_size=4)
    starts = range(draw(st.integers(1, 2)))
    pairs = [seats(s * size + n, draw(rewards), draw(rewards), s) for s in starts for n in range(size)]
    return [t for pair in pairs for t in pair]


def test_two_matches_by_hand():
    """Gamma = 1/2, beta = 2: beta gamma = 1.

    Seat 0 has rewards [2, 4] and [0, 0]: to go [4, 4] and [0, 0], less the means A1 = [2, 2] and [-2, -2].
    Seat 1 has rewards [0, 2] and [1, 8]: to go [1, 2] and [5, 8], so A2 = [-2, -3] and [2, 3].
    At the second turn the sum over the past is half of the first turn's own advantage: 1 and -1 for seat 0,
    -1 and 1 for seat 1. So seat 0 has 2 + 1 * -3 and -2 - 1 * 3, seat 1 has -3 - 1 * 2 and 3 + 1 * -2.
    """
    batch = [*seats(0, [2.0, 4.0], [0.0, 2.0]), *seats(1, [0.0, 0.0], [1.0, 8.0])]
    assert aligned(batch, gamma=0.5, beta=2.0) == [[2.0, -1.0], [-2.0, -5.0], [-2.0, -5.0], [2.0, 1.0]]


def test_the_past_is_discounted_by_its_age():
    """Seat 0 has +-1 to go at its first turn only, seat 1 at its third: 1/2 * (1/2)^2 * 1 * 1 is added there."""
    batch = [*seats(0, [1.0, 0.0, 0.0], [-0.25, 0.0, 1.0]), *seats(1, [-1.0, 0.0, 0.0], [0.25, 0.0, -1.0])]
    first, second, *_ = aligned(batch, gamma=0.5)
    assert first == [1.0, 0.5 * 0.5 * 0.5, 0.5 * 0.25 * 1.0]
    assert second == [0.0, 0.5, 1.0]  # before its third turn it had no advantage but 1/2 to go at the second


REFUSED, CALL = {"action": None}, {"action": "search: Ann", "tool": "search"}


def with_more(t, at, **fields):
    """Return a trajectory with one more turn, that is not a move, before its move ``at`` (or behind its last one)."""
    turns, rewards = list(t.turns), list(t.rewards)
    turns.insert(at, turn()._replace(**fields))
    rewards.insert(at, 0.0)
    return t._replace(turns=tuple(turns), rewards=tuple(rewards))


@pytest.mark.parametrize("extra", [REFUSED, CALL], ids=["refused", "tool"])
def test_turns_that_are_no_moves_take_no_time_worked_by_hand(extra):
    """The matches of ``test_two_matches_by_hand``, where seat 0 of the first one needs a second try at its first move.

    Its second move still meets seat 1's second, and both turns of its first move have that move's 2.
    """
    batch = [*seats(0, [2.0, 4.0], [0.0, 2.0]), *seats(1, [0.0, 0.0], [1.0, 8.0])]
    batch[0] = with_more(batch[0], 0, **extra)
    assert aligned(batch, gamma=0.5, beta=2.0) == [[2.0, 2.0, -1.0], [-2.0, -5.0], [-2.0, -5.0], [2.0, 1.0]]


@few
@given(matches(), st.data())
def test_turns_that_are_no_moves_change_no_move(batch, data):
    """However many of them there are: moves keep their advantages, and the other turns have that of their move."""
    expected, longer = [list(advantages_K) for advantages_K in aligned(batch, 0.9)], list(batch)
    for i, t in enumerate(batch):
        for at in sorted(data.draw(st.lists(st.integers(0, max(len(t.turns) - 1, 0)), max_size=3)), reverse=True):
            if t.turns:
                longer[i] = with_more(longer[i], at, **data.draw(st.sampled_from([REFUSED, CALL])))
                expected[i].insert(at, expected[i][at])
    assert aligned(longer, 0.9) == near(expected)


def test_a_seat_that_forfeits_is_at_a_move():
    """Seat 0 of match 1 never gets its second move through: both tries are at it, and share what it cost."""
    batch = [*seats(0, [1.0, 2.0], [0.0, 0.0]), *seats(1, [1.0, 0.0, -2.0], [0.0, 0.0])]
    turns = batch[2].turns
    batch[2] = batch[2]._replace(turns=(turns[0], *(late._replace(action=None) for late in turns[1:])))
    assert aligned(batch, beta=0.0) == [[2.0, 2.0], [0.0, 0.0], [-2.0, -2.0, -2.0], [0.0, 0.0]]


def by_loops(batch, gamma, beta):
    def to_go(t, k):
        return sum(gamma ** (j - k) * t.rewards[j] for j in range(k, len(t.rewards)))

    def advantage(t, k):
        if k >= len(t.turns):
            return 0.0
        mates = [o for o in batch if (o.deal_seed, o.seat) == (t.deal_seed, t.seat) and k < len(o.turns)]
        return to_go(t, k) - fmean([to_go(mate, k) for mate in mates])

    advantages = []
    for t in batch:
        (opponent,) = [o for o in batch if o.match == t.match and o.seat != t.seat]
        advantages.append([])
        for k in range(len(t.turns)):
            past = sum(gamma ** (k - j) * advantage(t, j) for j in range(k))
            advantages[-1].append(advantage(t, k) + beta * gamma * past * advantage(opponent, k))
    return advantages


@few
@given(matches(), st.sampled_from([0.5, 0.9, 1.0]), st.sampled_from([0.0, 0.5, 3.0]))
def test_agrees_with_the_formula_in_plain_loops(batch, gamma, beta):
    assert aligned(batch, gamma, beta) == near(by_loops(batch, gamma, beta))


@few
@given(matches(), st.randoms(use_true_random=False))
def test_the_order_of_a_batch_changes_nothing(batch, rng):
    order = rng.sample(range(len(batch)), len(batch))
    advantages = aligned(batch)
    assert aligned([batch[i] for i in order]) == near([advantages[i] for i in order])


@few
@given(matches())
def test_without_alignment_every_turn_has_mean_zero_in_its_group(batch):
    pooled = {}
    for t, advantages_K in zip(batch, aligned(batch, beta=0.0), strict=True):
        for k, advantage in enumerate(advantages_K):
            pooled.setdefault((t.deal_seed, t.seat, k), []).append(advantage)
    assert all(sum(turns) == pytest.approx(0.0, abs=1e-9) for turns in pooled.values())


@few
@given(matches(), st.sampled_from([0.5, 2.0]))
def test_linear_in_beta_and_the_first_turn_has_no_past(batch, beta):
    at_0, at_1, at_beta = (aligned(batch, 0.9, b) for b in (0.0, 1.0, beta))
    for plain_K, aligned_K, scaled_K in zip(at_0, at_1, at_beta, strict=True):
        expected = [a + beta * (b - a) for a, b in zip(plain_K, aligned_K, strict=True)]
        assert scaled_K == pytest.approx(expected, abs=1e-9)
        assert scaled_K[:1] == plain_K[:1]


def test_other_numbers_of_seats_are_refused():
    three = [t._replace(players=("main",) * 3) for match in (0, 1) for t in seats(match, [1.0], [0.0])]
    with pytest.raises(UsageError, match="advantages of two seats, and kuhn_poker has 3"):
        aligned(three)


def test_against_a_seat_that_does_not_learn_only_the_own_advantage_is_left():
    """In matches 0 and 1 both seats train, in 2 and 3 only the first: there A* is the group-relative A for any beta."""
    pairs = [t for match in (0, 1) for t in seats(match, [1.0, 2.0 * match], [3.0 * match, 1.0])]
    alone = [seats(match, [1.0, match], [0.0, 0.0])[0]._replace(players=("main", "old")) for match in (2, 3)]
    advantages = aligned(pairs + alone, beta=5.0)
    assert advantages[: len(pairs)] == aligned(pairs, beta=5.0)
    assert advantages[len(pairs) :] == aligned(alone, beta=0.0)
    assert [advantages_K[1] for advantages_K in advantages[len(pairs) :]] == [-0.5, 0.5]


def test_matches_that_cannot_be_compared_are_refused():
    with pytest.raises(UsageError, match=r"matchmaking\.group_size"):
        aligned([*seats(0, [1.0], [0.0], start=0), *seats(1, [1.0], [0.0], start=1)])
