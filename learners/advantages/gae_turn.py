"""Generalised advantage estimation by turns (arXiv 1506.02438), with an utterance-level critic (arXiv 2402.19446).

With V(o_k) the critic's value at the prompt of turn k and o_{k+1} the same seat's next turn:

    delta_k = r_k + gamma V(o_{k+1}) - V(o_k),   V = 0 after the last turn
    A_k = sum over l of (gamma lambda)^l delta_{k+l}

The critic's targets are A_k + V(o_k). A turn is one step, however many tokens its reply has.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from games.common.section import Share
from learners.advantages.rule import Credited, CreditRule, Discounted, Need, State, unweighted
from learners.trajectories import Evidence, Trajectory


class Settings(Discounted):
    """``gae_turn``'s settings."""

    trace_decay: Share = Field(0.95, description="lambda: how much later turns count in a turn's advantage")


def gae_turn(
    trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return A_k. Raises ValueError for trajectories without values."""
    advantages = [_advantages(t, _values(t, e), settings) for t, e in zip(trajectories, evidence, strict=True)]
    return unweighted(advantages, state)


def _advantages(trajectory: Trajectory, values_K: Sequence[float], settings: Settings) -> list[float]:
    gamma, trace_decay = settings.gamma, settings.trace_decay
    advantages, following, advantage = [], 0.0, 0.0
    for reward, value in zip(reversed(trajectory.rewards), reversed(values_K), strict=True):
        advantage = reward + gamma * following - value + gamma * trace_decay * advantage
        advantages.append(advantage)
        following = value
    return advantages[::-1]


def _values(trajectory: Trajectory, evidence: Evidence) -> tuple[float, ...]:
    if evidence.values is None:
        raise ValueError(
            f"gae_turn needs a value for each turn, but the trajectory of {trajectory.role} in match "
            f"{trajectory.match} has none: give its policy a critic, and compute its values before the rule is applied."
        )
    return evidence.values


RULE = CreditRule(gae_turn, Settings, needs={Need.VALUES})
