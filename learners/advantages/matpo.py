"""MATPO (arXiv 2510.04678): planner and workers are roles of one policy, and workers earn what their planner earns.

Over the G planner rollouts of a query A_i = (R_i - mean) / (std + epsilon), handed unchanged to every
worker trajectory whose parent is rollout i, and on to their own workers. The paper divides a rollout's
loss by all tokens generated in it, workers' included: ``objective.normalisation = "rollout_mean"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.sums import standardised
from learners.trajectories import Trajectory


def matpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return the planners' z-scores and their workers' shares of them.

    Raises UsageError for uneven or short groups of planners, ValueError for a worker without its parent.
    """
    planners = [place for place, one in enumerate(trajectories) if one.parent is None]
    scores = in_groups("matpo", [trajectories[place] for place in planners], standardised)
    advantages = dict(zip(planners, scores, strict=True))
    heads = {trajectories[place].match: place for place in planners}  # by match
    parents = {one.match: one.parent for one in trajectories if one.parent is not None}
    for place, one in enumerate(trajectories):
        if one.parent is not None:
            advantages[place] = advantages[_head(one, parents, heads)]
    return broadcast(trajectories, [advantages[place] for place in range(len(trajectories))]), state


def _head(worker: Trajectory, parents: dict[int, int], heads: dict[int, int]) -> int:
    """Return the place of the planner above a worker."""
    match = worker.parent
    while match in parents and match not in heads:
        match = parents[match]
    if match not in heads:
        raise ValueError(
            f"matpo: worker {worker.role} of match {worker.match} has parent {worker.parent}, but no planner of that "
            "match is in the batch. Keep a rollout and all that it opened in one batch."
        )
    return heads[match]
