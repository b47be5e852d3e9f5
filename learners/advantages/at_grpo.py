"""AT-GRPO (PettingLLMs, arXiv 2510.11062): groups by role and turn.

Turns of one group that have the same index are compared: A_k is the z-score of their rewards to go.
Matches end at different lengths, so later turns have fewer to compare with; one alone has 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learners.advantages.sums import rewards_to_go, standardised
from learners.groups import groups_of
from learners.trajectories import Trajectory


def at_grpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return z-scores by turn index within groups; uses ``settings.gamma``.

    Raises UsageError for uneven or short groups.
    """
    sums = [rewards_to_go(one.rewards, settings.gamma) for one in trajectories]
    advantages: list[list[float]] = [[] for _ in sums]
    for places in groups_of("at_grpo", trajectories).values():
        going = sorted(places, key=lambda place: -len(sums[place]))  # the longest first
        for k in range(len(sums[going[0]])):
            while len(sums[going[-1]]) <= k:
                going.pop()
            for place, score in zip(going, standardised([sums[place][k] for place in going]), strict=True):
                advantages[place].append(score)
    return advantages, state
