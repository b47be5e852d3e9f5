"""Trajectories made by hand and by Hypothesis, for tests of credit."""

import random

from hypothesis import strategies as st

from arena.records import Turn
from learners.advantages import RULES
from learners.trajectories import Evidence, Trajectory

quarters = st.integers(-8, 8).map(lambda n: n / 4)
seat_counts = st.sampled_from([2, 3, 5])


def turn(reward=0.0, observation="here", seat=0, trace=None):
    return Turn(seat, "", "main", observation, (), "", "", reward, trace)


def trajectory(rewards=(), states=None, total=None, **fields):
    """Return a trajectory whose turns have these rewards and begin in these states."""
    states = states or ("here",) * len(rewards)
    turns = tuple(turn(reward, state) for reward, state in zip(rewards, states, strict=True))
    defaults = {"game": "kuhn_poker", "role": "first", "policy": "main", "seat": 0, "match": 0, "deal_seed": 0}
    defaults |= {"players": ("main", "main"), "match_return": sum(rewards) if total is None else total}
    return Trajectory(**{**defaults, **fields, "turns": turns, "rewards": tuple(rewards)})


def valued(batch):
    """Return evidence with a value and a contribution for every turn, quarters that differ as turns and matches do."""
    evidence = []
    for one in batch:
        rng = random.Random(f"{one.game} {one.match} {one.seat}")
        values, added = [tuple(rng.randint(-8, 8) / 4 for _ in one.turns) for _ in range(2)]
        evidence.append(Evidence(values=values, contributions=added))
    return evidence


def credit(rule, batch, state=None, evidence=None, **settings):
    """Return what a rule makes of a batch; nothing is known beside play unless evidence is given."""
    known = [Evidence()] * len(batch) if evidence is None else evidence
    return RULES[rule].make(batch, known, state or {}, RULES[rule].settings(**settings))


def taken(rule, **settings):
    """Return those of the settings that a rule has."""
    return {name: value for name, value in settings.items() if name in RULES[rule].settings.model_fields}


def own_settings(rule):
    """Return a rule's settings as they are if nobody sets them."""
    return RULES[rule].settings()


@st.composite
def batches(draw, least_turns=0, seats=seat_counts):
    """Return whole groups: roles differ in turns, groups and policies; seats that left early have no turn."""
    size, members = draw(st.integers(2, 4)), []
    count = draw(seats)
    for start in range(draw(st.integers(1, 3))):
        game = draw(st.sampled_from(["kuhn_poker", "tic_tac_toe"]))
        trained = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True))
        policies = {seat: draw(st.sampled_from(["main", "probe"])) for seat in trained}
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
                        policy=policies[seat],
                        seat=seat,
                        match=start * size + number,
                        deal_seed=start,
                        players=("main",) * count,
                    )
                )
    return members
