"""MATPO (arXiv 2510.04678): planner and workers are roles of one policy, and workers earn what their planner earns.

Over the G planner rollouts of a query A_i = (R_i - mean) / (std + epsilon), handed unchanged to every
worker trajectory whose parent is rollout i. The paper divides a rollout's loss by all tokens generated
in it, workers' included: ``objective.normalisation = "rollout_mean"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.sums import standardised
from learners.trajectories import Trajectory


def matpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return the planners' z-scores, each worker's its planner's.

    Raises UsageError for uneven or short groups of planners, ValueError for a worker without exactly one planner.
    """
    planners = [one for one in trajectories if one.parent is None]
    scores: dict[int, list[float]] = {}  # by match, of each planner seat
    for planner, score in zip(planners, in_groups("matpo", planners, standardised).tolist(), strict=True):
        scores.setdefault(planner.match, []).append(score)
    left = {match: iter(own) for match, own in scores.items()}
    advantages = [
        next(left[one.match]) if one.parent is None else _inherited(one, scores.get(one.parent, []))
        for one in trajectories
    ]
    return broadcast(trajectories, np.array(advantages)), state


def _inherited(worker: Trajectory, scores: Sequence[float]) -> float:
    """Return the one score of the match that opened a worker's."""
    if len(scores) != 1:
        raise ValueError(
            f"matpo: worker {worker.role} of match {worker.match} has parent {worker.parent}, and the batch has "
            f"{len(scores)} planners of that match instead of one. Train one planner seat a match, and keep a "
            "rollout and all that it opened in one batch."
        )
    return scores[0]
