"""REINFORCE (Williams 1992): the discounted sum of rewards from a turn on, with no baseline.

A_k = sum over j >= k of gamma^(j-k) r_j
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learners.advantages.sums import by_turn, rewards_to_go
from learners.trajectories import Trajectory


def reinforce(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return rewards to go; uses ``settings.gamma``."""
    return by_turn(rewards_to_go(trajectories, settings.gamma), trajectories), state
