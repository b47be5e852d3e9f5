"""REINFORCE (Williams 1992): the discounted reward to go, with no baseline.

A_k = sum over j >= k of gamma^(j-k) r_j
"""

from __future__ import annotations

from collections.abc import Sequence

from learners.advantages.common import rewards_to_go, split_by_turn
from learners.advantages.rule import Credited, CreditRule, Discounted, State, unweighted
from learners.trajectories import Evidence, Trajectory


def reinforce(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Discounted
) -> Credited:
    """Return rewards to go."""
    return unweighted(split_by_turn(rewards_to_go(trajectories, settings.gamma), trajectories), state)


RULE = CreditRule(reinforce, Discounted)
