"""AT-GRPO (PettingLLMs, arXiv 2510.11062): groups by role and turn.

Turns of one group that have the same index are compared: A_k is the z-score of their rewards to go.
Matches end at different lengths, so later turns have fewer to compare with; one alone has 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.advantages.sums import by_turn, rewards_to_go, standardised, turn_counts
from learners.groups import group_numbers
from learners.trajectories import Trajectory


def at_grpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return z-scores by turn index within groups; uses ``settings.gamma``.

    Raises UsageError for uneven or short groups.
    """
    groups = group_numbers("at_grpo", trajectories)
    lengths = turn_counts(trajectories)
    first = np.cumsum(lengths) - lengths  # each trajectory's first turn in the batch
    index = np.arange(lengths.sum()) - np.repeat(first, lengths)  # k  [T]
    labels = np.repeat(groups * lengths.max(initial=0), lengths) + index
    sums = rewards_to_go(trajectories, settings.gamma)
    return by_turn(standardised(sums, labels), trajectories), state
