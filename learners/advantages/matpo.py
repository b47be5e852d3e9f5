"""MATPO (arXiv 2510.04678): planner and workers are roles of one policy, and workers get their planner's advantage.

Over the G planner rollouts of a query A_i = (R_i - mean) / (std + epsilon), which every worker trajectory
of rollout i gets unchanged, also one that another worker's match opened. The paper divides a rollout's
loss by all tokens generated in it, workers' included: ``objective.normalisation = "rollout_mean"``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from games.common.section import Section
from learners.advantages.common import standardised
from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.groups import is_root, rollout_of
from learners.trajectories import Evidence, Trajectory


def matpo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return the planners' z-scores, and each worker's planner's z-score for the worker.

    Raises UsageError for uneven or short groups of planners, ValueError for a worker without exactly one planner.
    """
    planners = [trajectory for trajectory in trajectories if is_root(trajectory)]
    scores: dict[int, list[float]] = {}  # by match, of each planner seat
    for planner, score in zip(planners, in_groups("matpo", planners, standardised).tolist(), strict=True):
        scores.setdefault(planner.match, []).append(score)
    scores_left = {match: iter(planner_scores) for match, planner_scores in scores.items()}
    advantages = [
        next(scores_left[trajectory.match])
        if is_root(trajectory)
        else _inherited(trajectory, scores.get(rollout_of(trajectory), []))
        for trajectory in trajectories
    ]
    return unweighted(broadcast(trajectories, np.array(advantages)), state)


def _inherited(worker: Trajectory, scores: Sequence[float]) -> float:
    """Return the planner's score in the rollout that a worker's match is part of."""
    if len(scores) != 1:
        raise ValueError(
            f"matpo: worker {worker.role} of match {worker.match} belongs to the rollout of match {worker.root}, and "
            f"the batch has {len(scores)} planners of that match instead of one. Train one planner seat a match, give "
            "its role the rule too, and keep a rollout and all that it opened in one batch."
        )
    return scores[0]


RULE = CreditRule(matpo, Section, needs={Need.GROUPS}, across_roles=True)
