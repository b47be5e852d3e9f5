"""Group-relative advantages: GRPO (DeepSeekMath, arXiv 2402.03300), Dr. GRPO (arXiv 2503.20783), and Flow-GRPO.

With R the returns of a group, the trajectories of one role from one start:

    grpo      A = (R - mean R) / (std R + epsilon)
    dr_grpo   A = R - mean R, since the division weighs starts by how alike their returns are

Every turn has its trajectory's A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from learners.advantages.sums import centred, standardised
from learners.groups import groups_of
from learners.trajectories import Trajectory


def grpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return z-scores of the returns within groups. Raises UsageError for uneven or short groups."""
    return broadcast(trajectories, in_groups("grpo", trajectories, standardised)), state


def dr_grpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return returns less their group's mean. Raises UsageError for uneven or short groups."""
    return broadcast(trajectories, in_groups("dr_grpo", trajectories, centred)), state


def in_groups(
    rule: str, trajectories: Sequence[Trajectory], compare: Callable[[Sequence[float]], list[float]]
) -> list[float]:
    """Return what ``compare`` makes of each group's returns, one number a trajectory."""
    advantages = [0.0] * len(trajectories)
    for places in groups_of(rule, trajectories).values():
        compared = compare([trajectories[place].match_return for place in places])
        for place, advantage in zip(places, compared, strict=True):
            advantages[place] = advantage
    return advantages


def broadcast(trajectories: Sequence[Trajectory], advantages: Sequence[float]) -> list[list[float]]:
    """Return each trajectory's number once for each of its turns."""
    return [[a] * len(one.turns) for one, a in zip(trajectories, advantages, strict=True)]
