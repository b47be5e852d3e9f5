"""A trajectory's rewards: its return, the named rewards that the game pays beside it, and brevity.

Named rewards come from ``games.abilities``, in their own units. ``brevity`` needs no game: each token of a trajectory's
free replies costs 1, a negative reward.
"""

from __future__ import annotations

from collections.abc import Sequence

from learners.normalisation import trace_of
from learners.trajectories import Trajectory

RETURN = "return"  # the match's return, in the units in which trajectories have it
BREVITY = "brevity"  # less the number of tokens of all replies


def rewards_named(trajectories: Sequence[Trajectory], name: str) -> list[float]:
    """Return each trajectory's reward of a name [N]; 0 where it has none. Raises ValueError as ``trace_of``."""
    return [reward_named(trajectory, name) for trajectory in trajectories]


def reward_named(trajectory: Trajectory, name: str) -> float:
    """Return a trajectory's reward of a name."""
    if name == RETURN:
        return trajectory.match_return
    if name == BREVITY:
        return -float(sum(len(trace_of(trajectory, turn).reply_ids) for turn in trajectory.turns))
    return sum((reward for turn in trajectory.turns for key, reward in turn.named if key == name), 0.0)
