"""MATPO (arXiv 2510.04678): planner and workers are roles of one policy, and workers earn what their planner earns.

Over the G planner rollouts of a query A_i = (R_i - mean) / (std + epsilon), handed unchanged to every
worker trajectory of rollout i, also to one that a worker's match opened. The paper divides a rollout's
loss by all tokens generated in it, workers' included: ``objective.normalisation = "rollout_mean"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.sums import standardised
from learners.groups import is_root, rollout_of
from learners.trajectories import Trajectory


def matpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return the planners' z-scores, each worker's its planner's.

    Raises UsageError for uneven or short groups of planners, ValueError for a worker without exactly one planner.
    """
    planners = [one for one in trajectories if is_root(one)]
    scores: dict[int, list[float]] = {}  # by match, of each planner seat
    for planner, score in zip(planners, in_groups("matpo", planners, standardised).tolist(), strict=True):
        scores.setdefault(planner.match, []).append(score)
    left = {match: iter(own) for match, own in scores.items()}
    advantages = [
        next(left[one.match]) if is_root(one) else _inherited(one, scores.get(rollout_of(one), []))
        for one in trajectories
    ]
    return broadcast(trajectories, np.array(advantages)), state


def _inherited(worker: Trajectory, scores: Sequence[float]) -> float:
    """Return the one score of the rollout that a worker's match is of."""
    if len(scores) != 1:
        raise ValueError(
            f"matpo: worker {worker.role} of match {worker.match} belongs to the rollout of match {worker.root}, and "
            f"the batch has {len(scores)} planners of that match instead of one. Train one planner seat a match, give "
            "its role the rule too, and keep a rollout and all that it opened in one batch."
        )
    return scores[0]
