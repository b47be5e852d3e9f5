"""Role-conditioned advantage estimation (SPIRAL, arXiv 2506.24119).

Each (game, role, policy) has a running baseline b of its returns R, because a seat's expected return
depends on its role:

    A_k = R - b   with b from before the update,   b <- alpha b + (1 - alpha) R,   b_0 = 0

The paper folds in R trajectory by trajectory; at alpha = 0.95 b is then a mean over only some 20
matches, whose noise is a common offset of the whole batch. The default folds in the batch mean once.

The ablation ``baseline = "game"`` has one baseline for all roles of a (game, policy).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Literal

from pydantic import Field

from games.common.section import Section, Share
from learners.advantages.rule import Credited, CreditRule, State, unweighted
from learners.trajectories import Evidence, Trajectory


class Settings(Section):
    """``rae``'s settings."""

    decay: Share = Field(0.95, description="how much of the old baseline a fold keeps (alpha)")
    fold: Literal["batch", "trajectory"] = Field("batch", description="fold the batch mean, or each return")
    baseline: Literal["role", "game"] = Field("role", description="a baseline for each role, or one for all of a game")


def rae(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return R - b for every turn, and the baselines after it."""
    baselines = dict(state)
    alpha = settings.decay
    returns: dict[str, list[float]] = {}
    advantages: list[list[float]] = []
    for trajectory in trajectories:
        if not trajectory.turns:  # its return does not depend on the role's replies
            advantages.append([])
            continue
        key = _baseline_key(trajectory, settings.baseline)
        total = trajectory.match_return
        baseline = baselines.get(key, 0.0)
        advantages.append([total - baseline] * len(trajectory.turns))
        if settings.fold == "trajectory":
            baselines[key] = alpha * baseline + (1 - alpha) * total
        else:
            returns.setdefault(key, []).append(total)
    for key, returns_N in returns.items():
        baselines[key] = alpha * baselines.get(key, 0.0) + (1 - alpha) * fsum(returns_N) / len(returns_N)
    return unweighted(advantages, baselines)


def _baseline_key(trajectory: Trajectory, baseline: str) -> str:
    """Return the key of a trajectory's baseline in the state."""
    if baseline == "game":
        return f"{trajectory.game}/{trajectory.policy}"
    return f"{trajectory.game}/{trajectory.role}/{trajectory.policy}"


RULE = CreditRule(rae, Settings)
