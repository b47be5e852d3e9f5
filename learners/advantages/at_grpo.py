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
    advantages = [[0.0] * len(sums_K) for sums_K in sums]
    for places in groups_of("at_grpo", trajectories).values():
        for k in range(max(len(sums[place]) for place in places)):
            present = [place for place in places if k < len(sums[place])]
            for place, score in zip(present, standardised([sums[place][k] for place in present]), strict=True):
                advantages[place][k] = score
    return advantages, state
