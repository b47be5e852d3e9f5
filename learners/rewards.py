"""What a trajectory was paid: its return, what the game paid beside it under a name, and brevity.

Named rewards are those of ``games.abilities``, in their own units. ``brevity`` needs no game: it is the price of a
trajectory's free replies, one for each token, as a reward below 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from learners.normalisation import trace_of
from learners.trajectories import Trajectory

RETURN = "return"  # the match's return, in the units in which trajectories have it
BREVITY = "brevity"  # less the number of tokens of all replies


def rewards_named(trajectories: Sequence[Trajectory], name: str) -> list[float]:
    """Return what each trajectory was paid under a name [N]; 0 where nothing was. Raises ValueError as ``trace_of``."""
    return [reward_named(trajectory, name) for trajectory in trajectories]


def reward_named(trajectory: Trajectory, name: str) -> float:
    """Return what a trajectory was paid under a name."""
    if name == RETURN:
        return trajectory.match_return
    if name == BREVITY:
        return -float(sum(len(trace_of(trajectory, turn).reply_ids) for turn in trajectory.turns))
    return sum((paid for turn in trajectory.turns for known, paid in turn.named if known == name), 0.0)
