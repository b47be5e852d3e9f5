"""CORY (arXiv 2410.06101): a pioneer and an observer of one task both earn the sum of their rewards.

    R = r_pioneer + r_observer    A = (R - mean R) / (std R + epsilon)

over the matches from one start. The paper's critic is replaced by the group. The two swap roles every
m updates: ``matchmaking.swap_every``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from games.common.errors import UsageError
from games.common.section import Section
from learners.advantages.common import standardised
from learners.advantages.grpo import broadcast
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.groups import group_numbers
from learners.trajectories import Evidence, Trajectory


def cory(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return z-scores of a match's summed returns. Raises UsageError for uneven groups, or seats that do not train."""
    sums, seats = dict[int, float](), Counter[int]()
    for trajectory in trajectories:
        sums[trajectory.match] = sums.get(trajectory.match, 0.0) + trajectory.match_return
        seats[trajectory.match] += 1
    for trajectory in trajectories:
        if seats[trajectory.match] != len(trajectory.players):
            raise UsageError(
                f"Credit rule 'cory' adds up the returns of all seats of a match, but in match {trajectory.match} of "
                f"{trajectory.game} it trains {seats[trajectory.match]} of {len(trajectory.players)} seats. Give every "
                "role the rule and a policy that trains, and matchmaking.self_play all the weight."
            )
    shared = [sums[trajectory.match] for trajectory in trajectories]
    return unweighted(broadcast(trajectories, standardised(shared, group_numbers("cory", trajectories))), state)


RULE = CreditRule(cory, Section, needs={Need.GROUPS}, across_roles=True)
