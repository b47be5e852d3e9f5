"""GiGPO, group-in-group (arXiv 2505.10978): a trajectory's advantage plus a turn's.

    A_k = A^E + omega A^S_k

A^E compares whole returns within the group, (R - mean) / (std + epsilon). A^S compares turns of the
group that begin in the same state (equal observation): their discounted rewards to go are centred
within this step group, and divided by its standard deviation if ``step_spread`` is set. A state that
is met once tells nothing: 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from learners.advantages.sums import Labels, by_turn, centred, numbered, rewards_to_go, standardised, turn_counts
from learners.groups import group_numbers
from learners.trajectories import Trajectory

_OBSERVATION = attrgetter("observation")


def gigpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return A^E + omega A^S; uses ``settings.step_weight``, ``step_gamma`` and ``step_spread``.

    Raises UsageError for uneven or short groups.
    """
    groups = group_numbers("gigpo", trajectories)
    whole = standardised([one.match_return for one in trajectories], groups)
    compare = standardised if settings.step_spread else centred
    steps = compare(rewards_to_go(trajectories, settings.step_gamma), _step_groups(trajectories, groups))
    advantages = np.repeat(whole, turn_counts(trajectories)) + settings.step_weight * steps
    return by_turn(advantages, trajectories), state


def _step_groups(trajectories: Sequence[Trajectory], groups_N: Labels) -> Labels:
    """Return the number of each turn's step group, the turns of a group that begin in the same state [T]."""
    states = numbered(map(_OBSERVATION, chain.from_iterable(one.turns for one in trajectories)))
    pairs = np.repeat(groups_N, turn_counts(trajectories)) * (states.max(initial=0) + 1) + states
    return np.asarray(np.unique(pairs, return_inverse=True)[1], np.intp)
