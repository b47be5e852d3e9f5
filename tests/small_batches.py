"""Trajectories made by hand and by Hypothesis, for tests of credit."""

from hypothesis import strategies as st

from arena.records import Turn
from learners.trajectories import Trajectory

quarters = st.integers(-8, 8).map(lambda n: n / 4)
seat_counts = st.sampled_from([2, 3, 5])


def turn(reward=0.0, observation="here", seat=0, trace=None):
    return Turn(seat, "", "main", observation, (), "", "", reward, trace)


def trajectory(rewards=(), states=None, total=None, **fields):
    """Return a trajectory whose turns have these rewards and begin in these states."""
    states = states or ("here",) * len(rewards)
    turns = tuple(turn(reward, state) for reward, state in zip(rewards, states, strict=True))
    known = {"game": "kuhn_poker", "role": "first", "policy": "main", "seat": 0, "match": 0, "deal_seed": 0}
    known |= {"players": ("main", "main"), "match_return": sum(rewards) if total is None else total}
    return Trajectory(**{**known, **fields, "turns": turns, "rewards": tuple(rewards)})


@st.composite
def batches(draw, least_turns=0, seats=seat_counts):
    """Return whole groups: roles differ in turns and in groups; seats that left early have no turn."""
    size, members = draw(st.integers(2, 4)), []
    count = draw(seats)
    for start in range(draw(st.integers(1, 3))):
        game = draw(st.sampled_from(["kuhn_poker", "tic_tac_toe"]))
        trained = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True))
        for number in range(size):
            for seat in trained:
                rewards = draw(st.lists(quarters, min_size=least_turns, max_size=2 + seat))
                members.append(
                    trajectory(
                        rewards,
                        draw(st.lists(st.sampled_from("abc"), min_size=len(rewards), max_size=len(rewards))),
                        None if rewards else draw(quarters),
                        game=game,
                        role=f"seat {seat}",
                        seat=seat,
                        match=start * size + number,
                        deal_seed=start,
                        players=("main",) * count,
                        values=tuple(draw(st.lists(quarters, min_size=len(rewards), max_size=len(rewards)))),
                    )
                )
    return members
