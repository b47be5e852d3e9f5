"""GiGPO, group-in-group (arXiv 2505.10978): a trajectory's advantage plus a turn's.

    A_k = A^E + omega A^S_k

A^E compares whole returns within the group, (R - mean) / (std + epsilon). A^S compares turns of the
group that begin in the same state (equal observation): their discounted rewards to go are centred
within this step group, and divided by its standard deviation if ``step_spread`` is set. A state that
is met once tells nothing: 0.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    sums = [rewards_to_go(one.rewards, settings.step_gamma) for one in trajectories]
    advantages = [[a] * len(one.turns) for one, a in zip(trajectories, whole, strict=True)]
    for places in groups_of("gigpo", trajectories).values():
        steps: dict[str, list[tuple[int, int]]] = {}  # by observation, the turns that begin there
        for place in places:
            for k, turn in enumerate(trajectories[place].turns):
                steps.setdefault(turn.observation, []).append((place, k))
        for turns in steps.values():
            if len(turns) > 1:
                for (place, k), step in zip(turns, compare([sums[i][k] for i, k in turns]), strict=True):
                    advantages[place][k] += settings.step_weight * step
    return advantages, state
