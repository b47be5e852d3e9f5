"""REINFORCE (Williams 1992): the discounted sum of rewards from a turn on, with no baseline.

A_k = sum over j >= k of gamma^(j-k) r_j
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learners.trajectories import Trajectory


def reinforce(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return rewards to go; uses ``settings.gamma``."""
    return [rewards_to_go(t.rewards, settings.gamma) for t in trajectories], state


def rewards_to_go(rewards_K: Sequence[float], gamma: float) -> list[float]:
    """Return the discounted sum of the rewards from each turn on."""
    sums, total = [], 0.0
    for reward in reversed(rewards_K):
        total = reward + gamma * total
        sums.append(total)
    return sums[::-1]
