"""Role-conditioned advantage estimation (SPIRAL, arXiv 2506.24119).

Each (game, role, policy) has a running baseline b of its returns R, because a seat's expected return
depends on its role:

    A_k = R - b   with b from before the update,   b <- alpha b + (1 - alpha) R,   b_0 = 0

The paper folds in R trajectory by trajectory; at alpha = 0.95 b is then a mean over only some 20
matches, whose noise is a common offset of the whole batch. The default folds in the batch mean once.

``first = "batch"`` begins with the mean of a baseline's first batch instead of 0: where returns are far from 0, the
first updates would otherwise push every reply up, or every reply down. The ablation ``baseline = "game"`` has one
baseline for all roles of a (game, policy).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Literal

from pydantic import Field

from games.common.section import Section, Share
from learners.advantages.rule import Credited, CreditRule, State, unweighted
from learners.keys import join_names, split_names
from learners.trajectories import Evidence, Trajectory


class Settings(Section):
    """``rae``'s settings."""

    decay: Share = Field(0.95, description="how much of the old baseline an update keeps (alpha)")
    fold: Literal["batch", "trajectory"] = Field(
        "batch", description="update it with the batch's mean, or with each return in turn"
    )
    baseline: Literal["role", "game"] = Field("role", description="a baseline for each role, or one for the whole game")
    first: Literal["zero", "batch"] = Field(
        "zero", description="a baseline's first value: 0, or its first batch's mean"
    )


def rae(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return R - b for every turn, and the baselines after it."""
    baselines = dict(state)
    if settings.first == "batch":
        baselines = _batch_means(trajectories, settings.baseline) | baselines
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


def forget(state: State, policy: str) -> State:
    """Return the baselines of all policies but this one."""
    return {key: baseline for key, baseline in state.items() if split_names(key)[-1] != policy}


def _batch_means(trajectories: Sequence[Trajectory], baseline: str) -> dict[str, float]:
    """Return the mean return of each baseline's trajectories, by its key."""
    returns: dict[str, list[float]] = {}
    for trajectory in trajectories:
        if trajectory.turns:
            returns.setdefault(_baseline_key(trajectory, baseline), []).append(trajectory.match_return)
    return {key: fsum(returns_N) / len(returns_N) for key, returns_N in returns.items()}


def _baseline_key(trajectory: Trajectory, baseline: str) -> str:
    """Return the key of a trajectory's baseline in the state."""
    if baseline == "game":
        return join_names(trajectory.game, trajectory.policy)
    return join_names(trajectory.game, trajectory.role, trajectory.policy)


RULE = CreditRule(rae, Settings, forget=forget)
