"""What waits for an update survives a round trip through JSON to the last digit."""

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from arena.records import TokenTrace, Turn
from learners.pending import Pending
from learners.trajectories import Trajectory

numbers = st.floats(-3.0, 3.0, allow_nan=False)
traces = st.builds(
    TokenTrace,
    st.just("main"),
    st.tuples(st.integers(0, 99)),
    st.tuples(st.integers(0, 99), st.integers(0, 99)),
    st.tuples(numbers, numbers),
    st.sampled_from([None, ("pass", "bet")]),
    numbers,
)
turns = st.builds(
    Turn,
    st.integers(0, 1),
    st.just("first"),
    st.just("main"),
    st.text(max_size=5),
    st.just(("pass", "bet")),
    st.just("bet"),
    st.sampled_from([None, "bet"]),
    numbers,
    st.none() | traces,
)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 60))
def test_spread_keeps_whole_groups_of_every_game_up_to_the_limit(groups, size, limit):
    pending, index = Pending(), 0
    for game in ("g", "h"):
        for start in range(groups):
            for _ in range(size):
                for seat in (0, 1):
                    role = ("first", "second")[seat]
                    one = Trajectory(game, role, "main", seat, index, start, ("main",) * 2, (), (), 0.5)
                    pending.add([one], [[float(index)]])
                index += 1
    kept = pending.spread(limit)
    by_start = Counter((one.game, one.deal_seed) for one in kept.trajectories)
    assert set(by_start.values()) <= {2 * size}
    expected = min(groups, limit // size)
    assert Counter(game for game, _ in by_start) == ({"g": expected, "h": expected} if expected else {})
    assert kept.advantages == [[float(one.match)] for one in kept.trajectories]


@given(st.lists(st.lists(turns, max_size=3), max_size=3), st.integers(0, 2**63), st.none() | st.tuples(numbers))
def test_it_comes_back_equal(turns_of_each, deal_seed, values):
    pending = Pending()
    for number, own in enumerate(turns_of_each):
        rewards = tuple(turn.reward for turn in own)
        one = Trajectory(
            "g", "first", "main", 0, number, deal_seed, ("main", "x"), tuple(own), rewards, 0.5, None, values
        )
        pending.add([one], [[reward / 3 for reward in rewards]])
    again = Pending.from_json(pending.to_json())
    assert again == pending
    assert again.to_json() == pending.to_json() == json.dumps(json.loads(pending.to_json()))
