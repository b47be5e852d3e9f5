"""Role-conditioned advantage estimation (SPIRAL, arXiv 2506.24119).

Each (game, role, policy) has a running baseline b of its returns R, because a seat's expected return
depends on its role:

    A_k = R - b   with b from before the update,   b <- alpha b + (1 - alpha) R,   b_0 = 0

The paper folds R trajectory by trajectory; at alpha = 0.95 b is then a mean over only some 20
matches, whose noise is a common offset of the whole batch. The default folds the batch mean once.

``baseline = "game"`` keeps one baseline for all roles of a (game, policy): the ablation.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Any

from learners.trajectories import Trajectory


def rae(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return R - b for every turn; uses ``settings.decay`` (alpha), ``fold`` and ``baseline``."""
    baselines = dict(state)
    alpha = settings.decay
    returns: dict[str, list[float]] = {}
    advantages: list[list[float]] = []
    for trajectory in trajectories:
        if not trajectory.turns:  # its return says nothing of the role's replies
            advantages.append([])
            continue
        key = "/".join(_owner(trajectory, settings.baseline))
        total = trajectory.match_return
        baseline = baselines.get(key, 0.0)
        advantages.append([total - baseline] * len(trajectory.turns))
        if settings.fold == "trajectory":
            baselines[key] = alpha * baseline + (1 - alpha) * total
        else:
            returns.setdefault(key, []).append(total)
    for key, returns_N in returns.items():
        baselines[key] = alpha * baselines.get(key, 0.0) + (1 - alpha) * fsum(returns_N) / len(returns_N)
    return advantages, baselines


def _owner(trajectory: Trajectory, baseline: str) -> tuple[str, ...]:
    """Return what a trajectory's baseline is kept for."""
    if baseline == "game":
        return trajectory.game, trajectory.policy
    return trajectory.game, trajectory.role, trajectory.policy
