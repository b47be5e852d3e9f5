"""Rules of selection where seats, roles, policies, starts and ids differ, and where figures tie."""

import json

import pytest
from support.learning.selections import batch_of, chosen, factors, saying
from support.learning.trajectories import trajectory

from learners.selection import STATE


def one(value, *, match=0, **fields):
    return trajectory([0.0], total=value, match=match, **fields)


@pytest.mark.parametrize(
    ("by", "members"),
    [
        ("outcome", [one(0.0), one(-0.5), one(0.5), one(0.25), one(2.0)]),
        ("opponent", [one(1.0, players=("main", other)) for other in ("main", "main-1", "probe", "probe", "probe")]),
        ("role", [one(1.0, role=role) for role in ("second", "third", "first", "first", "first")]),
        ("game", [one(1.0, game=game) for game in ("leduc_poker", "tiny_hanabi", *["kuhn_poker"] * 3)]),
    ],
)
def test_each_stratum_weighs_the_same_whatever_parts_it(by, members):
    """Strata of 1, 1 and 3 of 5 trajectories: 5 / (3 * 1) and 5 / (3 * 3); of two or more values of ``by`` each."""
    weights = factors(chosen(batch_of(members), "stratified", stratified={"by": (by,), "weights": "equal"}))
    assert weights == pytest.approx([5 / 3, 5 / 3, *[5 / 9] * 3])


def test_the_opponent_is_whoever_sits_in_another_seat():
    """The seat that learns is the second: its opponents are in the first."""
    members = [one(1.0, seat=1, players=(other, "main")) for other in ("probe", "main-1", "main-1")]
    weights = factors(chosen(batch_of(members), "stratified", stratified={"by": ("opponent",), "weights": "equal"}))
    assert weights == pytest.approx([3 / 2, 3 / 4, 3 / 4])


def test_strata_count_only_what_rules_before_left_and_policies_do_not_mix():
    members = [one(1.0, match=m) for m in (5, 3, 4)] + [one(-1.0, match=1), one(1.0, match=2, policy="probe")]
    settings = {"by": ("outcome",), "weights": "equal"}
    batch = batch_of(members, weights=[[1.0], [0.0], [1.0], [1.0], [1.0]])
    assert factors(chosen(batch, "stratified", stratified=settings)) == pytest.approx([3 / 4, 0, 3 / 4, 3 / 2, 1])


def test_the_draw_of_a_stratum_does_not_depend_on_the_order_of_the_batch():
    members = [one(1.0, match=match, seat=seat) for match in (9, 2, 5, 7) for seat in (0, 1)]
    drawn = factors(chosen(batch_of(members), "stratified", stratified={"most": 3}))
    assert sorted(drawn) == pytest.approx([0] * 5 + [8 / 3] * 3)
    assert factors(chosen(batch_of(members[::-1]), "stratified", stratified={"most": 3})) == drawn[::-1]


def grouped(*returns, **fields):
    return [
        one(value, deal_seed=start, match=10 * start + number, **fields)
        for start, of_group in enumerate(returns)
        for number, value in enumerate(of_group)
    ]


def test_each_role_keeps_its_own_most_spread_groups():
    """Of the first role's groups the wider one, of the second role's too, though it is narrower than both."""
    members = [
        *grouped((-8, 8), (-4, 4), players=("main", "main")),
        *grouped((-2, 2), (-1, 1), role="second", seat=1),
    ]
    kept = factors(chosen(batch_of(members), "spread", spread={"share": 0.5}))
    assert kept == [1, 1, 0, 0, 1, 1, 0, 0]


def test_a_share_between_two_groups_takes_the_greater_number_of_them():
    """A quarter of five groups: two."""
    members = grouped(*[(-width, width) for width in (1, 5, 2, 4, 3)])
    assert factors(chosen(batch_of(members), "spread", spread={"share": 0.25})) == [0, 0, 1, 1, 0, 0, 1, 1, 0, 0]


def errors(paid, number, match, length=3):
    said = [None] * number + ["bet"] * (length - number)
    return saying(trajectory([0.0] * length, total=paid, match=match), *said)


def test_who_pays_the_mean_is_no_success():
    """Returns 2, 0 and -2, with the mean 0: only the first is a success, and all of one is kept."""
    members = [errors(0.0, 3, 4), errors(2.0, 2, 0), errors(-2.0, 1, 9)]
    assert factors(chosen(batch_of(members), "fewest_errors")) == [1.0, 1.0, 1.0]


def test_half_of_three_successes_are_two():
    members = [errors(1.0, 2, 8), errors(1.0, 0, 1), errors(-3.0, 0, 5), errors(1.0, 1, 3)]
    assert factors(chosen(batch_of(members), "fewest_errors")) == [0.0, 1.5, 1.0, 1.5]


def test_a_repeat_is_the_same_reply_to_the_same_sight_and_an_advantage_of_0_is_no_success():
    seen = trajectory([0.0] * 4, ["left", "right", "left", "left"])
    member = saying(seen, "a", "a", "a", "b")
    assert chosen(batch_of([member], [[1.0] * 4]), "steps").turns[0].weights == (1, 1, 0, 1)
    assert chosen(batch_of([member], [[1.0, 1.0, 0.0, 1.0]]), "steps").turns[0].weights == (1, 1, 1, 1)


WON, LOST = (1.0, -1.0), (-1.0, -1.0)


def after(state, members, **settings):
    """Return a later iteration's selection, from the state as it is saved."""
    stored = json.loads(json.dumps(state))
    return chosen(batch_of(members), "successes", state=stored, successes=settings)


def test_a_success_is_replayed_up_to_its_greatest_age_and_not_beyond():
    state = after({}, grouped(WON), oldest=2).state  # kept in iteration 1
    for iteration, number in ((2, 1), (3, 1), (4, 0)):
        selected = after(state, grouped(LOST), oldest=2)
        assert len(selected.replayed) == number, iteration
        state = selected.state
    assert not state[STATE + "successes"]["kept"]


def test_a_success_joins_its_own_start_seat_and_policy_alone():
    won = one(1.0, deal_seed=7, match=70), one(-1.0, deal_seed=7, match=71)
    state = after({}, won).state
    assert after(state, [t._replace(match_return=-1.0) for t in won]).replayed
    for field in ({"deal_seed": 8}, {"seat": 1}, {"policy": "probe"}, {"role": "second"}, {"game": "leduc_poker"}):
        assert not after(state, [t._replace(match_return=-1.0, **field) for t in won]).replayed, field


def test_the_newest_successes_are_kept_where_there_is_no_room():
    state = after({}, grouped(WON), size=1).state  # start 0, in iteration 1
    newer = [t._replace(deal_seed=4, match=t.match + 40) for t in grouped(WON)]
    state = after(state, newer, size=1).state
    assert not after(state, grouped(LOST)).replayed
    assert after(state, [t._replace(match_return=-1.0) for t in newer]).replayed


def test_a_seat_that_won_without_a_turn_teaches_nothing():
    silent = [trajectory([], total=1.0, match=0), trajectory([], total=-1.0, match=1)]
    state = after({}, silent).state
    assert not after(state, grouped(LOST)).replayed
