"""MT-GRPO (arXiv 2505.11821): each turn's reward is normalised among the group's turns with the same index.

With r_k the reward of turn k, of the n_k trajectories of a group that have a turn k:

    z_k = (r_k - mean of the n_k) / (std of the n_k + epsilon),   A_k = sum over j >= k of gamma^(j - k) z_j

For two turns that every trajectory has this is the paper's A_1 = z(turn) + gamma z(outcome), A_2 = z(outcome). Where
the policy decides how long a match is, those who stopped are missing from later means: what going on is worth cancels
out of the credit for going on, and no number of matches brings it back (docs/guide/is_my_advantage_biased.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from pydantic import Field

from learners.advantages.common import centred, discounted_sums, split_by_turn, standardised, turn_labels
from learners.advantages.rule import Credited, CreditRule, Discounted, Need, State, unweighted
from learners.trajectories import Evidence, Trajectory


class Settings(Discounted):
    """``mt_grpo``'s settings."""

    spread: bool = Field(True, description="divide by the standard deviation of the turns with the same index")


def mt_grpo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return sums of rewards that are normalised by turn index within groups.

    Raises UsageError for uneven or short groups.
    """
    labels = turn_labels("mt_grpo", trajectories)
    rewards = np.array(list(chain.from_iterable(t.rewards for t in trajectories)))
    normalised = (standardised if settings.spread else centred)(rewards, labels)
    return unweighted(split_by_turn(discounted_sums(normalised, trajectories, settings.gamma), trajectories), state)


RULE = CreditRule(mt_grpo, Settings, needs={Need.GROUPS})
