"""Flow-GRPO (AgentFlow, arXiv 2510.05592): the trajectory's group-relative advantage, broadcast to every turn.

A_k = (R - mean R) / (std R + epsilon) within the group; each turn is then a sample of its own in the
loss. (``objective.normalisation = "sequence_mean"`` averages over turns as the paper does.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.sums import standardised
from learners.trajectories import Trajectory


def flow_grpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return z-scores of the returns within groups. Raises UsageError for uneven or short groups."""
    return broadcast(trajectories, in_groups("flow_grpo", trajectories, standardised)), state
