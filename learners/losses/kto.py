"""``kto``: tells good whole matches from bad ones (Kahneman-Tversky optimisation, Ethayarajh et al., arXiv 2402.01306).

L = 1 - sigmoid(+-beta (S - z0)) for each trajectory of score S: + where it is desirable, - otherwise.
z0 is an estimate of KL(pi | reference), at least 0, through which no gradient goes: exact where
replies are chosen, and from mismatched replies where they are free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from learners.groups import root_game_of
from learners.losses.dpo import Preference
from learners.losses.term import LossContext, LossTerm, Term, UpdateFacts
from learners.losses.whole_trajectories import (
    NEEDS,
    MismatchedReply,
    PreferenceWeight,
    ScoredTrajectory,
    WholeTrajectories,
)
from learners.normalisation import trace_of
from learners.trajectories import Trajectory

if TYPE_CHECKING:
    from torch import Tensor

    from learners.metric_sums import MetricSums


class Settings(Preference):
    """``kto``'s settings."""

    preference_weight: PreferenceWeight = "equal"


def labelled(facts: UpdateFacts, settings: Settings) -> WholeTrajectories:
    """Return trajectories, desirable or not by the sign of their turns' summed advantages; sums of 0 are left out.

    Under the default credit rule an advantage is the return less its role's baseline. A trajectory of weight w counts
    as w equal ones, and by ``difference`` as w times the size of that sum; the trajectories of a game share its loss
    weight. For the reference point each is paired with another of its role, half of them further on.
    """
    trajectories, advantages, weights = facts.trajectories, facts.advantages, facts.weights
    loss_weights, by_difference = facts.loss_weights, settings.preference_weight == "difference"
    used = [i for i, a in enumerate(advantages) if sum(a) and weights[i]]
    mismatched = list[MismatchedReply]()
    counts = {i: weights[i] * (abs(sum(advantages[i])) if by_difference else 1.0) for i in used}
    totals: dict[str, float] = {}
    for i in used:
        game = root_game_of(trajectories[i])
        totals[game] = totals.get(game, 0.0) + counts[i]
    mismatched_with = _mismatches(trajectories, used)
    scored = []
    for i in used:
        trajectory, rows = trajectories[i], _mismatched(trajectories[i], trajectories[mismatched_with[i]])
        game, first = root_game_of(trajectory), len(mismatched)
        mismatched += rows
        scored.append(
            ScoredTrajectory(
                f"{trajectory.game}/{trajectory.role}",
                tuple(facts.packed.places[i]),
                sum(advantages[i]) > 0,
                counts[i] * loss_weights.get(game, 1.0) / totals[game],
                tuple(range(first, len(mismatched))),
            )
        )
    return WholeTrajectories(tuple(scored), (), tuple(mismatched))


def kto_loss(scores: Tensor, reference_point: Tensor, desirable: Tensor, settings: Settings) -> Tensor:
    """Return 1 - sigmoid(+-beta (S - z0)), element by element; tensors have one shape."""
    import torch

    gain = torch.where(desirable, scores - reference_point, reference_point - scores)
    return torch.sigmoid(-settings.dpo_beta * gain)


def _loss(
    whole: WholeTrajectories, scores: Tensor, kl: Sequence[float], settings: Settings
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of all trajectories, and sums to report."""
    import torch

    scored = whole.scored
    by_role: dict[str, list[float]] = {}
    for trajectory, nats in zip(scored, kl, strict=True):
        by_role.setdefault(trajectory.role, []).append(nats)
    reference_points = {role: max(0.0, sum(nats) / len(nats)) for role, nats in by_role.items()}
    points = torch.tensor([reference_points[trajectory.role] for trajectory in scored], dtype=scores.dtype)
    desirable = torch.tensor([trajectory.desirable for trajectory in scored], dtype=torch.bool)
    weights = torch.tensor([trajectory.weight for trajectory in scored], dtype=scores.dtype)
    reported = {
        "trajectories": float(len(scored)),
        "desirable": float(desirable.sum()),
        "reference_point": float(points.sum()),
        "score_desirable": float(scores.detach()[desirable].sum()),
        "score_undesirable": float(scores.detach()[~desirable].sum()),
    }
    return (weights * kto_loss(scores, points, desirable, settings)).sum(), reported


def _make(context: LossContext) -> Term:
    from learners.losses.trajectory_scores import TrajectoryTerm

    return TrajectoryTerm(context, lambda turns: [1.0] * turns, _loss)


def _mismatches(trajectories: Sequence[Trajectory], indices: Sequence[int]) -> dict[int, int]:
    """Return for each trajectory the one of its role, half of them further on."""
    by_role: dict[tuple[str, str], list[int]] = {}
    for index in indices:
        by_role.setdefault((trajectories[index].game, trajectories[index].role), []).append(index)
    return {
        index: members[(number + max(1, len(members) // 2)) % len(members)]
        for members in by_role.values()
        for number, index in enumerate(members)
    }


def _mismatched(trajectory: Trajectory, other: Trajectory) -> list[MismatchedReply]:
    """Return another trajectory's free replies, each after this one's prompt, as far as both have such turns."""
    rows = []
    for turn, other_turn in zip(trajectory.turns, other.turns, strict=False):  # one may have fewer turns
        trace, other_trace = trace_of(trajectory, turn), trace_of(other, other_turn)
        if trace.mask is None and other_trace.mask is None:
            rows.append(MismatchedReply(trace.prompt_ids, other_trace.reply_ids, trace.temperature))
    return rows


def _metrics(sums: MetricSums) -> dict[str, float]:
    """Return how many trajectories were judged, the share of desirable ones, and both kinds' mean scores (nats)."""
    if "trajectories" not in sums.totals:  # nothing was played
        return {}
    count, desirable = sums.totals["trajectories"], sums.totals["desirable"]
    scores = {"score_desirable": desirable, "score_undesirable": count - desirable}
    return {
        "trajectories": count,
        "desirable": desirable / count if count else 0.0,
        "reference_point": sums.mean("reference_point", "trajectories"),
        **{name: sums.totals[name] / number for name, number in scores.items() if number},
    }


KTO = LossTerm(
    _make,
    Settings,
    NEEDS,
    description="good whole matches are distinguished from bad ones",
    rows=labelled,
    metrics=_metrics,
)
