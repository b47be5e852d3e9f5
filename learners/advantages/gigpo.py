"""GiGPO, group-in-group (arXiv 2505.10978): a trajectory's advantage plus a turn's.

    A_k = A^E + omega A^S_k

A^E compares whole returns within the group, (R - mean) / (std + epsilon). A^S compares turns of the
group that begin in the same state (equal observation): their discounted rewards to go are centred
within this step group, and divided by its standard deviation if ``step_spread`` is set. A state that
is met once tells nothing: 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from learners.advantages.grpo import in_groups
from learners.advantages.sums import centred, rewards_to_go, standardised
from learners.groups import groups_of
from learners.trajectories import Trajectory


def gigpo(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return A^E + omega A^S; uses ``settings.step_weight``, ``step_gamma`` and ``step_spread``.

    Raises UsageError for uneven or short groups.
    """
    whole = in_groups("gigpo", trajectories, standardised)
    compare = standardised if settings.step_spread else centred
    sums = [total for one in trajectories for total in rewards_to_go(one.rewards, settings.step_gamma)]
    ends = list(accumulate(len(one.turns) for one in trajectories))  # turns are numbered through the batch
    steps = [0.0] * len(sums)
    for places in groups_of("gigpo", trajectories).values():
        for turns in _step_groups([(trajectories[place], ends[place]) for place in places]):
            for turn, step in zip(turns, compare([sums[turn] for turn in turns]), strict=True):
                steps[turn] = settings.step_weight * step
    advantages = [
        [a + step for step in steps[end - len(one.turns) : end]]
        for one, a, end in zip(trajectories, whole, ends, strict=True)
    ]
    return advantages, state


def _step_groups(members: Sequence[tuple[Trajectory, int]]) -> list[list[int]]:
    """Return the numbers of the turns that begin in the same state, for states met more than once."""
    met: defaultdict[str, list[int]] = defaultdict(list)
    for one, end in members:
        for number, turn in enumerate(one.turns, end - len(one.turns)):
            met[turn.observation].append(number)
    return [turns for turns in met.values() if len(turns) > 1]
