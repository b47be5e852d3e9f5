"""REINFORCE leave-one-out (Kool et al. 2019; Ahmadian et al., arXiv 2402.14740).

A_i = R_i - mean of the group's other returns, which no reply of trajectory i has moved: an unbiased baseline.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from games.common.section import Section
from learners.advantages.common import Floats, Labels, centred
from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.trajectories import Evidence, Trajectory


def rloo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return leave-one-out differences within groups. Raises UsageError for uneven or short groups."""
    return unweighted(broadcast(trajectories, in_groups("rloo", trajectories, _leave_one_out)), state)


def _leave_one_out(returns_N: ArrayLike, groups_N: Labels) -> Floats:
    """Return R_i - (sum - R_i) / (G - 1), the centred return times G / (G - 1), for groups that have G members each."""
    size = np.bincount(groups_N)[groups_N]
    return np.asarray(centred(returns_N, groups_N) * size / (size - 1))


RULE = CreditRule(rloo, Section, needs={Need.GROUPS})
