"""The regret loss of "Do LLM Agents Have Regret?" (Park et al., arXiv 2403.16843, section 5) for repeated matrix games.

In round t of match i the policy plays the distribution p_t over its actions, which would have paid u_t(a), the other
seats' moves being what they were. What it regrets is the best single action in hindsight:

    R_i = max_a sum_t u_t(a) - sum_t p_t . u_t

and what is minimised is the paper's loss, over the matches i of a (game, role) in the batch:

    L = sum_i s_i h(R_i),  h(R) = max(0, R)^2,  s = softmax(focus R)

The paper takes the limit in which only the worst match counts; focus = 0 is the plain mean. As in the paper the moves
of the others, and so the u_t and what the policy reads, are held as they were: only the p_t carry gradient. With
dL/dR_i = s_i (h'(R_i) + focus (h(R_i) - L)) = c_i / N for N matches, and sum_a p_t(a) grad log p_t(a) = 0,

    -grad L = 1/N sum_i c_i sum_t sum_a u_t(a) grad p_t(a) = 1/N sum_i c_i sum_t E_{a ~ p_t} [A_t grad log p_t(a)]
    A_t = c_i (u_t(a_t) - p_t . u_t)

so the policy gradient with this advantage is that of the loss in expectation. At focus = 0, c_i = 2 max(0, R_i): a
match in which changing play did better than any one action teaches nothing. Returns of other rounds do not enter A_t,
so a policy learns to answer what it has read, not to change what the others will play.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.advantages.sums import Floats, by_turn, numbered
from learners.trajectories import Trajectory


def regret(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return A; uses ``settings.regret_focus``, in units of 1 / regret.

    Raises ValueError for trajectories that do not say what other actions would have paid.
    """
    expected = [_expected(one) for one in trajectories]
    regrets = np.array([_best_fixed(one) - sum(own) for one, own in zip(trajectories, expected, strict=True)])
    slopes = np.zeros(len(trajectories))
    roles = numbered((one.game, one.role) for one in trajectories)
    for role in range(roles.max(initial=-1) + 1):
        slopes[roles == role] = loss_slopes(regrets[roles == role], settings.regret_focus)
    gains = [
        slope * (reward - mean)
        for one, own, slope in zip(trajectories, expected, slopes, strict=True)
        for reward, mean in zip(one.rewards, own, strict=True)
    ]
    return by_turn(np.array(gains), trajectories), state


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


def _expected(one: Trajectory) -> tuple[float, ...]:
    if one.expected is None:
        raise _unknown(one)
    return one.expected


def _best_fixed(one: Trajectory) -> float:
    if one.best_fixed is None:
        raise _unknown(one)
    return one.best_fixed


def _unknown(one: Trajectory) -> ValueError:
    return ValueError(
        f"Rule 'regret' needs what other actions would have paid, which {one.role} in match {one.match} does not say"
    )
