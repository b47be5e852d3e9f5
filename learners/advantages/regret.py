"""The regret loss of "Do LLM Agents Have Regret?" (Park et al., arXiv 2403.16843, section 5) for repeated matrix games.

In round t of match i the policy plays the distribution p_t over its actions, which would have paid u_t(a), given the
moves that the other seats made. Its external regret compares it with the best single action in hindsight:

    R_i = max_a sum_t u_t(a) - sum_t p_t . u_t

The paper's loss, over the matches i of a (game, role, policy) in the batch, is

    L = sum_i s_i h(R_i),  h(R) = max(0, R)^2,  s = softmax(focus R)

The paper takes the limit in which only the worst match counts; focus = 0 is the plain mean. As in the paper the other
seats' moves, and so the u_t and the policy's observations, are constants: only the p_t carry gradient. With
dL/dR_i = s_i (h'(R_i) + focus (h(R_i) - L)) = c_i / N for N matches, and sum_a p_t(a) grad log p_t(a) = 0,

    -grad L = 1/N sum_i c_i sum_t sum_a u_t(a) grad p_t(a) = 1/N sum_i c_i sum_t E_{a ~ p_t} [A_t grad log p_t(a)]
    A_t = c_i (u_t(a_t) - p_t . u_t)

so the policy gradient with this advantage equals the loss's in expectation. At focus = 0, c_i = 2 max(0, R_i): a
match without regret has zero advantages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from games.common.section import NonNegative, Section
from learners.advantages.common import Floats, label_ids, split_by_turn
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.trajectories import Counterfactuals, Evidence, Trajectory


class Settings(Section):
    """``regret``'s settings."""

    focus: NonNegative = Field(0.0, description="weight matches by exp(this times their regret); 0: all equally")


def regret(
    trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return A; ``settings.focus`` is in units of 1 / regret.

    Raises ValueError for trajectories without counterfactuals.
    """
    counterfactuals = [_counterfactuals(trajectory, e) for trajectory, e in zip(trajectories, evidence, strict=True)]
    regrets = np.array([outcome.best_fixed - sum(outcome.expected) for outcome in counterfactuals])
    slopes = np.zeros(len(trajectories))
    roles = label_ids((t.game, t.role, t.policy) for t in trajectories)
    for role in range(roles.max(initial=-1) + 1):
        slopes[roles == role] = loss_slopes(regrets[roles == role], settings.focus)
    gains = [
        slope * (reward - mean)
        for trajectory, outcome, slope in zip(trajectories, counterfactuals, slopes, strict=True)
        for reward, mean in zip(trajectory.rewards, outcome.expected, strict=True)
    ]
    return unweighted(split_by_turn(np.array(gains), trajectories), state)


def loss(regrets: Floats, focus: float) -> float:
    """Return L of the matches' regrets [N]."""
    return float(_weights(regrets, focus) @ np.maximum(regrets, 0.0) ** 2)


def loss_slopes(regrets: Floats, focus: float) -> Floats:
    """Return c = N dL/dR of the matches' regrets [N]."""
    above = np.maximum(regrets, 0.0)
    slopes = 2.0 * above + focus * (above**2 - loss(regrets, focus))
    return np.asarray(len(regrets) * _weights(regrets, focus) * slopes)


def _weights(regrets: Floats, focus: float) -> Floats:
    weights = np.exp(focus * (regrets - regrets.max()))
    return np.asarray(weights / weights.sum())


def _counterfactuals(trajectory: Trajectory, evidence: Evidence) -> Counterfactuals:
    if evidence.counterfactuals is None:
        raise ValueError(
            f"Rule 'regret' needs what other actions would have paid, but the trajectory of {trajectory.role} in match "
            f"{trajectory.match} has no counterfactuals"
        )
    return evidence.counterfactuals


RULE = CreditRule(regret, Settings, needs={Need.COUNTERFACTUALS})
