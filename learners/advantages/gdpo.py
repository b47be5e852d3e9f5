"""Several rewards, each normalised separately: GDPO (arXiv 2601.05242).

With r_1 ... r_n the rewards of a trajectory, the return among them, and w their weights:

    A_n = (r_n - mean r_n) / (std r_n + epsilon)   within the group
    A = sum over n of w_n A_n, and then (A - mean A) / (std A + epsilon) over the batch

Normalised separately, a reward on a small scale counts as much as another. Normalising over the batch, which is a
role's trajectories under one policy, keeps the scale from growing with the number of rewards. With only one reward
the advantages are grpo's, exactly with ``normalise_batch = false``, and otherwise up to epsilon and one factor, which
is 1 where no group is flat.

Weights can differ by role (``credit.settings``), and can move linearly to others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from pydantic import Field, model_validator

from games.common.section import Positive, Section
from learners.advantages.common import label_ids, standardised
from learners.advantages.grpo import broadcast
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.groups import group_numbers
from learners.rewards import RETURN, rewards_named
from learners.trajectories import Evidence, Trajectory


class Settings(Section):
    """``gdpo``'s settings."""

    weights: dict[str, float] = Field(
        {}, description="weight of each reward by name; the return's is 1 unless it is named here"
    )
    weights_end: dict[str, float] = Field(
        {}, description="final weight of each reward whose weight changes; the others keep theirs"
    )
    over: Positive = Field(100, description="iterations over which weights move linearly to weights_end")
    normalise_batch: bool = Field(True, description="normalise the weighted sum over the batch, as the paper does")

    @model_validator(mode="after")
    def _weighs_something(self) -> Settings:
        if not any([*weights_at(self, 0).values(), *self.weights_end.values()]):
            raise ValueError(
                "all weights are 0, so nothing would be learned. Give a reward a weight, or leave weights out: the "
                "return then has weight 1."
            )
        return self


def gdpo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return weighted sums of z-scores, one of each reward within groups. Raises UsageError as ``groups_of``."""
    groups = group_numbers("gdpo", trajectories)
    weights = weights_at(settings, state.get("calls", 0))
    advantages_N = np.zeros(len(trajectories))
    for name, weight in weights.items():
        if weight:
            advantages_N += weight * standardised(rewards_named(trajectories, name), groups)
    if settings.normalise_batch:
        advantages_N = standardised(advantages_N, label_ids((t.game, t.role, t.policy) for t in trajectories))
    after = {**state, "calls": state.get("calls", 0) + 1, "weights": weights} if settings.weights_end else state
    return unweighted(broadcast(trajectories, advantages_N), after)


def weights_at(settings: Settings, calls: int) -> dict[str, float]:
    """Return the weights of all rewards, sorted by name, after ``calls`` iterations in which the rule was applied."""
    first = {RETURN: 1.0, **settings.weights}
    share = min(calls / settings.over, 1.0)
    names = sorted({*first, *settings.weights_end})
    ends = {name: settings.weights_end.get(name, first.get(name, 0.0)) for name in names}
    return {name: (1.0 - share) * first.get(name, 0.0) + share * ends[name] for name in names}


def rewards(settings: Settings) -> Collection[str]:
    """Return the names of the rewards that have a weight; a reward of weight 0 is shown but not learned from."""
    return list(weights_at(settings, 0))


def metrics(_trajectories: Sequence[Trajectory], credited: Credited) -> Mapping[str, float]:
    """Return the iteration's weights, if they move."""
    return {f"weight/{name}": weight for name, weight in credited.state.get("weights", {}).items()}


RULE = CreditRule(gdpo, Settings, needs={Need.GROUPS}, metrics=metrics, rewards=rewards)
