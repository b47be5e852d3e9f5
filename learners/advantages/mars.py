"""Turn-level, role-normalised advantages (MARS / MARSHAL, arXiv 2510.15414).

Rewards are summed first and centred after, over all turns of all trajectories of a (game, role, policy):

    R_k = sum over j >= k of r_j,   A_k = R_k - mean of R over the turns of the (game, role, policy)

There is no division by a standard deviation. (The released code centres first and sums after, and pools games.)
The paper has one policy; here an exploiter that also plays the role has a separate mean, since another policy's returns
are no baseline for it.

Two ablations: ``baseline = "game"`` takes one mean over all roles of a (game, policy), ``level = "trajectory"``
gives every turn the whole return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from learners.advantages.common import centred, label_ids, rewards_to_go, split_by_turn, turn_counts
from learners.advantages.rule import Credited, CreditRule, Discounted, State, unweighted
from learners.trajectories import Evidence, Trajectory


class Settings(Discounted):
    """``mars``'s settings."""

    baseline: Literal["role", "game"] = Field("role", description="a mean for each role, or one for the whole game")
    level: Literal["turn", "trajectory"] = Field(
        "turn", description="rewards from a turn on, or the whole return for every turn"
    )


def mars(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return R_k less its mean."""
    by_role = settings.baseline == "role"
    roles = label_ids((t.game, t.policy, t.role if by_role else "") for t in trajectories)
    lengths = turn_counts(trajectories)
    if settings.level == "turn":
        sums = rewards_to_go(trajectories, settings.gamma)
    else:
        sums = np.repeat([t.match_return for t in trajectories], lengths)
    return unweighted(split_by_turn(centred(sums, np.repeat(roles, lengths)), trajectories), state)


RULE = CreditRule(mars, Settings)
