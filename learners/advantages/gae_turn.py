"""Generalised advantage estimation by turns (arXiv 1506.02438), with an utterance-level critic (arXiv 2402.19446).

With V(o_k) the critic's value at the prompt of turn k and o_{k+1} the same seat's next turn:

    delta_k = r_k + gamma V(o_{k+1}) - V(o_k),   V = 0 after the last turn
    A_k = sum over l of (gamma lambda)^l delta_{k+l}

The critic's targets are A_k + V(o_k). A turn is one step however many tokens its reply has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from learners.trajectories import Trajectory


def gae_turn(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return A_k; uses ``settings.gamma`` and ``settings.trace_decay`` (lambda).

    Raises ValueError for trajectories without values.
    """
    return [_advantages(one, settings.gamma, settings.trace_decay) for one in trajectories], state


def critic_targets(trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return what each turn's value should have been, A_k + V(o_k)."""
    return [
        [a + v for a, v in zip(advantages_K, _values(one), strict=True)]
        for one, advantages_K in zip(trajectories, advantages, strict=True)
    ]


def _advantages(trajectory: Trajectory, gamma: float, trace_decay: float) -> list[float]:
    advantages, following, advantage = [], 0.0, 0.0
    for reward, value in zip(reversed(trajectory.rewards), reversed(_values(trajectory)), strict=True):
        advantage = reward + gamma * following - value + gamma * trace_decay * advantage
        advantages.append(advantage)
        following = value
    return advantages[::-1]


def _values(trajectory: Trajectory) -> tuple[float, ...]:
    if trajectory.values is None:
        raise ValueError(
            f"gae_turn needs a value for each turn, but the trajectory of {trajectory.role} in match "
            f"{trajectory.match} has none: give its policy a critic, and let it estimate before turns are credited."
        )
    return trajectory.values
