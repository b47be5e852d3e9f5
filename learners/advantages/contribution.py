"""Each turn's estimated contribution, as its advantage.

With c_k the contribution of turn k (SPA-RL's progress, arXiv 2505.20732; implicit step rewards, arXiv 2509.19199;
ReAd's sequential advantages, arXiv 2405.14314) and means over the (game, role, policy) in the batch,

    A_k = c_k − mean c + outcome (R − mean R)

``outcome`` adds the match's own result, as the paper of implicit step rewards does; ``legality`` adds to c_k a constant
for each reply that was legal, SPA-RL's signal that an action could be carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from pydantic import Field

from games.common.section import NonNegative, Section
from learners.advantages.common import centred, label_ids, split_by_turn, turn_counts
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.trajectories import Evidence, Trajectory


class Settings(Section):
    """``contribution``'s settings."""

    legality: NonNegative = Field(0.0, description="what a legal reply adds to its turn's contribution (SPA-RL)")
    outcome: NonNegative = Field(0.0, description="weight of the match's return, added to the turn's contribution")


def contribution(
    trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return A_k. Raises ValueError for trajectories without contributions."""
    counts = turn_counts(trajectories)
    labels = np.repeat(label_ids([(t.game, t.role, t.policy) for t in trajectories]), counts)
    parts = [_contributions(t, e) for t, e in zip(trajectories, evidence, strict=True)]
    added = np.array(list(chain.from_iterable(parts)), np.float64)
    if settings.legality:
        added += settings.legality * np.array([turn.action is not None for t in trajectories for turn in t.turns])
    advantages = centred(added, labels)
    if settings.outcome:
        returns = np.repeat([t.match_return for t in trajectories], counts)
        advantages = advantages + settings.outcome * centred(returns, labels)
    return unweighted(split_by_turn(advantages, trajectories), state)


def _contributions(trajectory: Trajectory, evidence: Evidence) -> tuple[float, ...]:
    if evidence.contributions is None:
        raise ValueError(
            f"contribution needs what each turn added, but the trajectory of {trajectory.role} in match "
            f"{trajectory.match} does not say: estimate it before the rule is applied."
        )
    return evidence.contributions


RULE = CreditRule(contribution, Settings, needs={Need.CONTRIBUTIONS})
