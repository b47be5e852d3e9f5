"""Turn-level, role-normalised advantages (MARS / MARSHAL, arXiv 2510.15414).

Rewards are summed first and centred after, over all turns of all trajectories of a (game, role):

    R_k = sum over j >= k of r_j,   A_k = R_k - mean of R over the turns of the (game, role)

There is no division by a spread. Rewards [0, 0, 1] and [0.05, -1] have R = [1, 1, 1] and [-0.95, -1],
mean 0.21. (The released code centres first and sums after, and pools games.)

Two ablations: ``baseline = "game"`` takes one mean over all roles of a game, ``level = "trajectory"``
gives every turn the whole return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.advantages.sums import by_turn, centred, numbered, rewards_to_go, turn_counts
from learners.trajectories import Trajectory


def mars(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return R_k less its mean; uses ``settings.gamma``, ``settings.baseline`` and ``settings.level``."""
    by_role = settings.baseline == "role"
    roles = numbered((one.game, one.role if by_role else "") for one in trajectories)
    lengths = turn_counts(trajectories)
    if settings.level == "turn":
        sums = rewards_to_go(trajectories, settings.gamma)
    else:
        sums = np.repeat([one.match_return for one in trajectories], lengths)
    return by_turn(centred(sums, np.repeat(roles, lengths)), trajectories), state
