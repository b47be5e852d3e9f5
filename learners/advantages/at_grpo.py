"""AT-GRPO (PettingLLMs, arXiv 2510.11062): groups by role and turn.

Turns of one group that have the same index are compared: A_k is the z-score of their rewards to go.
Matches end at different lengths, so later turns have fewer to compare with; a turn without any gets 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from learners.advantages.common import rewards_to_go, split_by_turn, standardised, turn_labels
from learners.advantages.rule import Credited, CreditRule, Discounted, Need, State, unweighted
from learners.trajectories import Evidence, Trajectory


def at_grpo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Discounted
) -> Credited:
    """Return z-scores by turn index within groups.

    Raises UsageError for uneven or short groups.
    """
    sums = rewards_to_go(trajectories, settings.gamma)
    return unweighted(split_by_turn(standardised(sums, turn_labels("at_grpo", trajectories)), trajectories), state)


RULE = CreditRule(at_grpo, Discounted, needs={Need.GROUPS})
