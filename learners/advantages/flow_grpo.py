"""Flow-GRPO (AgentFlow, arXiv 2510.05592): the trajectory's group-relative advantage, broadcast to every turn.

A_k = (R - mean R) / (std R + epsilon) within the group; each turn is then a separate sample in the
loss. (``objective.normalisation = "sequence_mean"`` averages over turns as the paper does.)
"""

from __future__ import annotations

from collections.abc import Sequence

from games.common.section import Section
from learners.advantages.common import standardised
from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.trajectories import Evidence, Trajectory


def flow_grpo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return z-scores of the returns within groups. Raises UsageError for uneven or short groups."""
    return unweighted(broadcast(trajectories, in_groups("flow_grpo", trajectories, standardised)), state)


RULE = CreditRule(flow_grpo, Section, needs={Need.GROUPS})
