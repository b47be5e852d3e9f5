"""CoMAS (arXiv 2510.08529): the rewards of solver, evaluator and judge depend on the judge's score s of 1 to 3 alone.

    solver (s - 1) / 2    evaluator 1 - (s - 1) / 2    judge 0, or -1 for a reply that is no score

The game pays these rewards (``judged_arithmetic``). The paper trains by REINFORCE++ (arXiv 2501.03262):

    A = (R - mean R) / (std R + epsilon)

over a batch's trajectories of one (game, role, policy).
"""

from __future__ import annotations

from collections.abc import Sequence

from games.common.section import Section
from learners.advantages.common import label_ids, standardised
from learners.advantages.grpo import broadcast
from learners.advantages.rule import Credited, CreditRule, State, unweighted
from learners.trajectories import Evidence, Trajectory


def comas(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return z-scores of the returns over all trajectories of a (game, role, policy)."""
    roles = label_ids((t.game, t.role, t.policy) for t in trajectories)
    return unweighted(broadcast(trajectories, standardised([t.match_return for t in trajectories], roles)), state)


RULE = CreditRule(comas, Section)
