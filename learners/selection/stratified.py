"""Stratified batches: at most this many trajectories of each game, role, opponent and outcome.

Strata h are the values of ``by``. Of a stratum's n_h trajectories at most ``most`` are drawn, m_h, each subset alike:
by seeds that depend on match and seat alone. With ``weights``

    unbiased  w = n_h / m_h          E[Σ w g] = Σ g: the gradient of the whole batch, with fewer rows
    equal     w = n / (H m_h)        every stratum weighs the same: rare opponents and outcomes are learned from too

n is the number of trajectories of the policy, H that of its strata. ``unbiased`` is exact where normalisation divides
by a number of trajectories (role_mean), or turns do not differ in number; else it is the ratio estimator.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from games.common.section import Positive, Section
from games.common.seeds import derive_seed
from learners.advantages.rule import State
from learners.selection.rule import CreditedBatch, Selection, SelectionRule, by_trajectory
from learners.trajectories import Trajectory


class Stratified(Section):
    """The strata and their weights."""

    by: tuple[Literal["game", "role", "opponent", "outcome"], ...] = Field(
        ("game", "role", "opponent", "outcome"), min_length=1, description="what the trajectories of a stratum share"
    )
    most: Positive | None = Field(None, description="most trajectories of a stratum to learn from; None: all")
    weights: Literal["unbiased", "equal"] = Field(
        "unbiased",
        description="unbiased: the gradient of the whole batch on average; equal: every stratum weighs the same",
    )


def stratified(batch: CreditedBatch, _state: State, settings: Stratified) -> Selection:
    """Draw from each stratum, and weigh what is drawn."""
    factors = [0.0] * len(batch.trajectories)
    strata: dict[str, dict[Hashable, list[int]]] = {}
    for i, trajectory in enumerate(batch.trajectories):
        if any(batch.weights[i]):
            strata.setdefault(trajectory.policy, {}).setdefault(_stratum(trajectory, settings.by), []).append(i)
    for of_policy in strata.values():
        ranks = {
            i: derive_seed("stratified", batch.trajectories[i].match, batch.trajectories[i].seat)
            for members in of_policy.values()
            for i in members
        }
        for i, weight in drawn_weights(list(of_policy.values()), ranks, settings).items():
            factors[i] = weight
    return Selection(by_trajectory(batch, factors))


def drawn_weights(strata: Sequence[Sequence[int]], ranks: Mapping[int, int], settings: Stratified) -> dict[int, float]:
    """Return the weight of each trajectory that is drawn: of each stratum those of least rank."""
    total, weights = sum(map(len, strata)), dict[int, float]()
    for members in strata:
        drawn = sorted(members, key=ranks.__getitem__)[: settings.most]
        share = len(members) if settings.weights == "unbiased" else total / len(strata)
        weights |= dict.fromkeys(drawn, share / len(drawn))
    return weights


def _stratum(trajectory: Trajectory, by: Sequence[str]) -> Hashable:
    """Return what a trajectory shares with its stratum; an outcome is above, at or below 0."""
    others = tuple([player for seat, player in enumerate(trajectory.players) if seat != trajectory.seat])
    value = trajectory.match_return
    facts = {
        "game": trajectory.game,
        "role": (trajectory.game, trajectory.role),
        "opponent": others,
        "outcome": (value > 0.0) - (value < 0.0),
    }
    return tuple([facts[name] for name in by])


RULE = SelectionRule(
    stratified, Stratified, reason="Its stratum had more trajectories than the batch takes from one stratum."
)
