"""CoMAS (arXiv 2510.08529): solver, evaluator and judge earn by the judge's score s of 1 to 3, not by the truth.

    solver (s - 1) / 2    evaluator 1 - (s - 1) / 2    judge 0, or -1 for a reply that is no score

That is what the game pays (``judged_arithmetic``). The paper trains by REINFORCE++ (arXiv 2501.03262):

    A = (R - mean R) / (std R + epsilon)

over a batch's trajectories of one role.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learners.advantages.grpo import broadcast
from learners.advantages.sums import numbered, standardised
from learners.trajectories import Trajectory


def comas(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return z-scores of the returns over all trajectories of a (game, role)."""
    roles = numbered((one.game, one.role) for one in trajectories)
    return broadcast(trajectories, standardised([one.match_return for one in trajectories], roles)), state
