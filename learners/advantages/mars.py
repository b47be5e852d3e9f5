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
from itertools import chain
from math import fsum
from typing import Any

from learners.advantages.sums import rewards_to_go
from learners.trajectories import Trajectory


def mars(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return R_k less its mean; uses ``settings.gamma``, ``settings.baseline`` and ``settings.level``."""
    by_role = settings.baseline == "role"
    keys = [(one.game, one.role if by_role else "") for one in trajectories]
    if settings.level == "turn":
        sums = [rewards_to_go(one.rewards, settings.gamma) for one in trajectories]
    else:
        sums = [[one.match_return] * len(one.turns) for one in trajectories]
    pooled: dict[tuple[str, str], list[list[float]]] = {}
    for key, sums_K in zip(keys, sums, strict=True):
        pooled.setdefault(key, []).append(sums_K)
    means = {key: _mean(members) for key, members in pooled.items()}
    return [[total - means[key] for total in sums_K] for key, sums_K in zip(keys, sums, strict=True)], state


def _mean(members: Sequence[Sequence[float]]) -> float:
    turns = sum(map(len, members))
    return fsum(chain.from_iterable(members)) / turns if turns else 0.0
