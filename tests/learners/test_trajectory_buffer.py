"""A trajectory buffer survives a round trip through JSON to the last digit."""

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from arena.records import TokenTrace, Turn
from learners.trajectories import Counterfactuals, Evidence, Trajectory
from learners.trajectory_buffer import TrajectoryBuffer

numbers = st.floats(-3.0, 3.0, allow_nan=False)
traces = st.builds(
    TokenTrace,
    st.just("main"),
    st.tuples(st.integers(0, 99)),
    st.tuples(st.integers(0, 99), st.integers(0, 99)),
    st.tuples(numbers, numbers),
    st.sampled_from([None, ("pass", "bet")]),
    numbers,
    st.tuples(st.integers(0, 9), numbers, numbers),
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
    named=st.lists(st.tuples(st.text(max_size=3), numbers), max_size=2).map(tuple),
)


def test_tokens_are_those_of_replies():
    trace = TokenTrace("main", (1, 2, 3), (4, 5), (0.0, 0.0), None)
    turn_of = [Turn(0, "first", "main", "", (), "", "", 0.0, t) for t in (trace, None, trace)]
    buffer = TrajectoryBuffer()
    for turns in (turn_of, turn_of[:2]):
        buffer.add([Trajectory("g", "first", "main", 0, 0, 0, ("main",), tuple(turns), (0.0,), 0.0)], [], [], [])
    assert buffer.tokens == 6


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 60))
def test_subsample_keeps_whole_groups_of_every_game_up_to_the_limit(groups, size, limit):
    buffer, index = TrajectoryBuffer(), 0
    for game in ("g", "h"):
        for start in range(groups):
            for _ in range(size):
                for seat in (0, 1):
                    role = ("first", "second")[seat]
                    trajectory = Trajectory(game, role, "main", seat, index, start, ("main",) * 2, (), (), 0.5)
                    buffer.add([trajectory], [Evidence(values=(float(index),))], [[float(index)]], [index / 2])
                index += 1
    subsample = buffer.subsample(limit)
    by_start = Counter((trajectory.game, trajectory.deal_seed) for trajectory in subsample.trajectories)
    assert set(by_start.values()) <= {2 * size}
    expected = min(groups, limit // size)
    assert Counter(game for game, _ in by_start) == ({"g": expected, "h": expected} if expected else {})
    assert subsample.advantages == [[float(trajectory.match)] for trajectory in subsample.trajectories]
    assert subsample.evidence == [Evidence(values=(float(trajectory.match),)) for trajectory in subsample.trajectories]
    assert subsample.weights == [trajectory.match / 2 for trajectory in subsample.trajectories]


evidence = st.builds(
    Evidence,
    values=st.none() | st.tuples(numbers),
    counterfactuals=st.none() | st.builds(Counterfactuals, st.tuples(numbers, numbers), numbers),
    rollout_tokens=st.none() | numbers,
    contributions=st.none() | st.tuples(numbers),
    taught=st.none() | st.tuples(st.tuples(numbers, numbers), st.just(())),
    influence=st.none() | st.tuples(numbers, st.none()),
    reply_credits=st.none() | st.tuples(st.tuples(numbers, numbers), st.just(())),
)


@given(st.lists(st.lists(turns, max_size=3), max_size=3), st.integers(0, 2**63), evidence, numbers)
def test_it_comes_back_equal(turns_of_each, deal_seed, facts, weight):
    buffer = TrajectoryBuffer()
    for number, played in enumerate(turns_of_each):
        rewards = tuple(turn.reward for turn in played)
        trajectory = Trajectory("g", "first", "main", 0, number, deal_seed, ("main", "x"), tuple(played), rewards, 0.5)
        buffer.add([trajectory], [facts], [[reward / 3 for reward in rewards]], [weight])
    again = TrajectoryBuffer.from_json(buffer.to_json())
    assert again == buffer
    assert again.to_json() == buffer.to_json() == json.dumps(json.loads(buffer.to_json()))
