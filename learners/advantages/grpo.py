"""Group-relative advantages: GRPO (DeepSeekMath, arXiv 2402.03300), Dr. GRPO (arXiv 2503.20783), and Flow-GRPO.

With R the returns of a group, the trajectories of one role from one start:

    grpo      A = (R - mean R) / (std R + epsilon)
    dr_grpo   A = R - mean R, since the division weighs starts by how alike their returns are

Every turn has its trajectory's A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from learners.advantages.sums import Floats, Labels, centred, standardised
from learners.groups import group_numbers
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


def in_groups(rule: str, trajectories: Sequence[Trajectory], compare: Callable[[ArrayLike, Labels], Floats]) -> Floats:
    """Return what ``compare`` makes of the returns and the numbers of their groups [N]."""
    return compare([one.match_return for one in trajectories], group_numbers(rule, trajectories))


def broadcast(trajectories: Sequence[Trajectory], advantages_N: Floats) -> list[list[float]]:
    """Return each trajectory's number once for each of its turns."""
    return [[a] * len(one.turns) for one, a in zip(trajectories, advantages_N.tolist(), strict=True)]
