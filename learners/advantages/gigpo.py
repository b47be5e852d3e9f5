"""GiGPO, group-in-group (arXiv 2505.10978): a trajectory's advantage plus a turn's.

    A_k = A^E + omega A^S_k

A^E compares whole returns within the group, (R - mean) / (std + epsilon). A^S compares turns of the
group that begin in the same state (equal observation): their discounted rewards to go are centred
within this step group, and divided by its standard deviation if ``step_spread`` is set. A^S is 0 for a state
that occurs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter

import numpy as np
from pydantic import Field

from games.common.section import NonNegative, Section, Share
from learners.advantages.common import (
    Labels,
    centred,
    label_ids,
    rewards_to_go,
    split_by_turn,
    standardised,
    turn_counts,
)
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.groups import group_numbers
from learners.trajectories import Evidence, Trajectory

_OBSERVATION = attrgetter("observation")


class Settings(Section):
    """``gigpo``'s settings."""

    step_weight: NonNegative = Field(1.0, description="weight omega of the step groups")
    step_gamma: Share = Field(0.95, description="discount of the step groups' returns")
    step_spread: bool = Field(False, description="divide by the standard deviation within a step group")


def gigpo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return A^E + omega A^S.

    Raises UsageError for uneven or short groups.
    """
    groups = group_numbers("gigpo", trajectories)
    episode_advantages = standardised([t.match_return for t in trajectories], groups)
    compare = standardised if settings.step_spread else centred
    step_advantages = compare(rewards_to_go(trajectories, settings.step_gamma), _step_groups(trajectories, groups))
    advantages = np.repeat(episode_advantages, turn_counts(trajectories)) + settings.step_weight * step_advantages
    return unweighted(split_by_turn(advantages, trajectories), state)


def _step_groups(trajectories: Sequence[Trajectory], groups_N: Labels) -> Labels:
    """Return the id of each turn's step group: the turns of a group that begin in the same state [T]."""
    states = label_ids(map(_OBSERVATION, chain.from_iterable(t.turns for t in trajectories)))
    pairs = np.repeat(groups_N, turn_counts(trajectories)) * (states.max(initial=0) + 1) + states
    return np.asarray(np.unique(pairs, return_inverse=True)[1], np.intp)


RULE = CreditRule(gigpo, Settings, needs={Need.GROUPS})
