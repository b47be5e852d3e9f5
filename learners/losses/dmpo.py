"""``dmpo``: prefers the better of two whole matches of one start (direct multi-turn preference optimisation).

L = -log sigmoid(beta (S_chosen - S_rejected)), whose scores weigh turn t of T by gamma^t (1 - gamma^(T - t)) /
(1 - gamma^T) (Shi et al., arXiv 2406.14868).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from learners.groups import group_members, root_game_of
from learners.losses.dpo import Preference, dpo_loss, pair_metrics
from learners.losses.term import LossContext, LossNeed, LossTerm, Term, UpdateFacts
from learners.losses.whole_trajectories import (
    NEEDS,
    PreferenceWeight,
    ScoredTrajectory,
    TrajectoryPair,
    WholeTrajectories,
)
from learners.normalisation import trace_of
from learners.trajectories import Trajectory

if TYPE_CHECKING:
    from torch import Tensor


class Settings(Preference):
    """``dmpo``'s settings."""

    dmpo_gamma: float = Field(1.0, gt=0.0, le=1.0, description="dmpo: discount of later turns")
    preference_weight: PreferenceWeight = "equal"


def paired(facts: UpdateFacts, settings: Settings) -> WholeTrajectories:
    """Return all pairs of trajectories of one role from one start; the first has the higher return.

    Trajectories with equal prompts and replies make no pair, nor do those of weight 0. The pairs of a game share its
    loss weight, evenly or by the ``difference`` of their returns.
    """
    trajectories, weights = facts.trajectories, facts.weights
    loss_weights, by_difference = facts.loss_weights, settings.preference_weight == "difference"
    index_pairs = [
        (chosen, rejected)
        for members in group_members(trajectories).values()
        for chosen in members
        for rejected in members
        if trajectories[chosen].match_return > trajectories[rejected].match_return
        if weights[chosen] and weights[rejected]
        if _prompts_and_replies(trajectories[chosen]) != _prompts_and_replies(trajectories[rejected])
    ]
    used = sorted({index for pair in index_pairs for index in pair})
    position_of = {index: position for position, index in enumerate(used)}
    returns = [trajectory.match_return for trajectory in trajectories]
    counts = [returns[chosen] - returns[rejected] if by_difference else 1.0 for chosen, rejected in index_pairs]
    totals: dict[str, float] = {}
    for (chosen, _), count in zip(index_pairs, counts, strict=True):
        game = root_game_of(trajectories[chosen])
        totals[game] = totals.get(game, 0.0) + count
    pairs = []
    for (chosen, rejected), count in zip(index_pairs, counts, strict=True):
        game = root_game_of(trajectories[chosen])
        weight = count * loss_weights.get(game, 1.0) / totals[game]
        pairs.append(TrajectoryPair(position_of[chosen], position_of[rejected], weight))
    scored = [
        ScoredTrajectory(f"{trajectories[i].game}/{trajectories[i].role}", tuple(facts.packed.places[i])) for i in used
    ]
    return WholeTrajectories(tuple(scored), tuple(pairs))


def turn_discounts(turns: int, gamma: float) -> list[float]:
    """Return gamma^t (1 - gamma^(T - t)) / (1 - gamma^T) for the turns t = 0, 1, ... T - 1 of a trajectory.

    A turn's log-ratio weighs as much as the discounted occupancies of all positions from it on, divided by the sum of
    the discounts, so that longer trajectories do not count more. For gamma = 1 it is (T - t) / T; for gamma near
    0 the first turn alone counts.
    """
    tails = [sum(gamma**later for later in range(t, turns)) for t in range(turns)]
    return [tail / tails[0] for tail in tails]


def _loss(
    whole: WholeTrajectories, scores: Tensor, _kl: Sequence[float], settings: Settings
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of all pairs, and sums to report."""
    import torch

    pairs = whole.pairs
    chosen, rejected = (scores[[pair[side] for pair in pairs]] for side in (0, 1))
    weights = torch.tensor([pair.weight for pair in pairs], dtype=scores.dtype)
    margins = (chosen - rejected).detach()
    reported = {
        "pairs": float(len(pairs)),
        "preferred": float((margins > 0).sum()),
        "margin": float(margins.sum()),
    }
    return (weights * dpo_loss(chosen, rejected, settings.dpo_beta)).sum(), reported


def _make(context: LossContext) -> Term:
    from learners.losses.trajectory_scores import TrajectoryTerm

    gamma = context.settings.dmpo_gamma
    return TrajectoryTerm(context, lambda turns: turn_discounts(turns, gamma), _loss)


def _prompts_and_replies(trajectory: Trajectory) -> list[object]:
    traces = [(trace_of(trajectory, turn), turn) for turn in trajectory.turns]
    return [(trace.prompt_ids, turn.reply if trace.mask is not None else trace.reply_ids) for trace, turn in traces]


DMPO = LossTerm(
    _make,
    Settings,
    NEEDS | {LossNeed.COMPARISONS},
    description="the better of two whole matches of one start is preferred to the other",
    rows=paired,
    metrics=pair_metrics,
)
