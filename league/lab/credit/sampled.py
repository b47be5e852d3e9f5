"""Rules compared with long Monte-Carlo continuations, in games that cannot be enumerated.

Some turns of the batches' matches are drawn, no two from one match. The match is continued from before and from after
each turn (``evidence.continuations``), twice independently: A' and A'' are two estimates of its advantage. With a_k the
credit that a rule gives to turn k,

    cosine = Σ a_k (A'_k + A''_k) / 2 / sqrt(Σ a_k² · Σ A'_k A''_k)

is the cosine of the credit with the true advantages: no product contains the same noise twice. Where no information
state occurs twice, as in large games, this is also the cosine of the gradients, up to the choice of a batch's matches.
The row ``exact`` compares A' with A'': how well the continuations agree. A sign counts as wrong only where the estimate
is significantly different from 0. Bias and noise are not separated.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from arena.records import Episode, MatchRequest
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config.credit import CreditConfig
from league.lab.credit.accuracy import Accuracy
from league.lab.credit.gradient_accuracy import EXACT, RuleAccuracy, choose
from league.lab.credit.matches import BatchPlan, PlayedBatch, requests_of
from league.lab.credit.rules import Floats, RuleVariant, credit_batches
from league.population.players.player import Player
from league.theory.statistics import Estimate, student_quantile
from learners.advantages.rule import CreditFacts, Need
from learners.trajectories import Evidence, return_scale, to_trajectories
from learners.values.continuations import Continuations, turn_places
from learners.values.estimator import PlayMatches

TURNS = 256  # that are continued
COUNT = 16  # continuations of each point and estimate
SURE = 2.0  # standard errors
FEWEST = 20  # fewest turns of a role or index for a cosine
NO_VALUES = "it needs the value of every turn, which is not known in a game that cannot be enumerated"


class SampledTurns(NamedTuple):
    """Turns whose matches were continued."""

    places: list[int]  # among all turns of the batches [T]
    first: Floats  # A' [T]
    second: Floats  # A'' [T]
    errors: Floats  # standard errors of their mean [T]
    roles: list[str]  # [T]
    turns: list[int]  # how many turns their seats had had before [T]


def compare_by_continuations(
    player: Player,
    credit: CreditConfig,
    plan: BatchPlan,
    names: Sequence[str] = (),
    turns: int = TURNS,
    given: Sequence[RuleVariant] = (),
) -> tuple[list[RuleAccuracy], dict[str, str]]:
    """Return the accuracy of the continuations and of the rules, and why some are left out.

    ``turns`` turns of the player's matches with itself are continued. Raises UsageError as ``compare_rules``.
    """
    spec, roles = player.spec, player.roles
    facts = CreditFacts(spec, roles, tuple(role for role in roles if not role.fixed), plan.group, None)
    variants, left_out = choose(names, credit, facts, given)
    left_out |= {v.text: NO_VALUES for v in variants if Need.VALUES in v.rule.needs or v.estimator}
    ids = tuple(members[0][0] for members in player.members)
    scale = return_scale(spec) if credit.scale_returns else 1.0
    cast = player.cast(random.Random(plan.seed))
    batches, episodes, plays_on = [], dict[int, Episode](), _plays(player)
    for number in range(plan.batches):
        drawn = requests_of(spec.name, roles, plan, number)
        played = plays_on([request._replace(players=ids, cast=cast) for request in drawn])
        flat = [episode._replace(children=()) for episode in played]  # the rules credit who opened the others
        trajectories = to_trajectories(flat, lambda _: roles, {spec.name: scale})
        batches.append(PlayedBatch(plan.batch, trajectories, np.zeros(0, np.intp), np.zeros(0, np.intp)))
        episodes |= {episode.request.index: episode for episode in played}
    sampled = _play_on(plays_on, batches, episodes, scale, plan.seed, turns)
    accuracies = [_measured(EXACT, sampled, sampled.first, sampled.second)]
    evidence = [[Evidence()] * len(batch.trajectories) for batch in batches]
    for variant in variants:
        if variant.text not in left_out:
            turn_credit = np.concatenate(credit_batches(variant, batches, evidence))[sampled.places]
            accuracies.append(_measured(variant.text, sampled, turn_credit, (sampled.first + sampled.second) / 2))
    return accuracies, left_out


def _plays(player: Player) -> PlayMatches:
    """Return a function that plays a player's matches, with those that they open."""
    roles, engines = {part.spec.name: part.roles for part in (player, *player.team)}, player.engines()

    def played(requests: list[MatchRequest]) -> list[Episode]:
        return play(requests, roles_of=roles.__getitem__, engine_of=engines.__getitem__, make_game=make_game)

    return played


def _play_on(
    plays_on: PlayMatches,
    batches: Sequence[PlayedBatch],
    episodes: dict[int, Episode],
    scale: float,
    seed: int,
    turns: int,
) -> SampledTurns:
    """Draw turns, no two from one match, and estimate their advantages twice, in the trajectories' units."""
    at = [(t, k) for batch in batches for t in batch.trajectories for k in range(len(t.turns))]
    order = np.random.default_rng(derive_seed(seed, "turns")).permutation(len(at)).tolist()
    by_match: dict[int, int] = {}
    for index in order:
        by_match.setdefault(at[index][0].match, index)
    places = sorted(list(by_match.values())[:turns])
    points = []
    for trajectory, k in (at[index] for index in places):
        episode = episodes[trajectory.match]
        before = turn_places(episode, trajectory.seat)[k]
        points += [(episode, before), (episode, before + 1)]
    seats = [at[index][0].seat for index in places]
    estimates, variances = [], []
    for half in range(2):
        continuations = Continuations(plays_on, COUNT, derive_seed(seed, "half", half))
        returns = continuations.returns(points).reshape(len(places), 2, COUNT, -1) / scale
        seat_returns = returns[np.arange(len(places)), :, :, seats]  # [T, 2, COUNT]
        estimates.append(seat_returns[:, 1].mean(axis=1) - seat_returns[:, 0].mean(axis=1))
        variances.append((seat_returns.var(axis=2, ddof=1) / COUNT).sum(axis=1))
    errors = np.sqrt((variances[0] + variances[1]) / 4)
    roles, indices = [at[index][0].role for index in places], [at[index][1] for index in places]
    return SampledTurns(places, estimates[0], estimates[1], errors, roles, indices)


def _measured(name: str, sampled: SampledTurns, credit: Floats, truth: Floats) -> RuleAccuracy:
    """Return the accuracy of the credit ``credit`` to the turns, over all, by role and by turn."""

    def within(is_part: Callable[[int], bool]) -> Accuracy:
        mask = np.array([is_part(index) for index in range(len(credit))], bool)
        both = (sampled.first + sampled.second) / 2
        sure = mask & (np.abs(both) > SURE * sampled.errors) & (np.abs(both) > 0.0)
        wrong = float((credit * both < 0.0)[sure].mean()) if sure.any() else None
        return Accuracy(
            cosine_of_turns(credit[mask], truth[mask], (sampled.first * sampled.second)[mask]), None, None, wrong, None
        )

    roles, turns = dict.fromkeys(sampled.roles), sorted(set(sampled.turns))
    by_role = {role: within(lambda i, role=role: sampled.roles[i] == role) for role in roles}  # type: ignore[misc]
    by_turn = {turn: within(lambda i, turn=turn: sampled.turns[i] == turn) for turn in turns}  # type: ignore[misc]
    return RuleAccuracy(name, within(lambda _: True), by_role, by_turn)


def cosine_of_turns(credit: Floats, truth: Floats, squares: Floats) -> Estimate | None:
    """Return Σ a A / sqrt(Σ a² Σ A'A'') over turns [T] with a jackknife's interval; None where a sum is not above 0.

    Also None for fewer than ``FEWEST`` turns.
    """
    if len(credit) < FEWEST:
        return None
    products, lengths, all_squares = credit * truth, credit**2, float(squares.sum())
    if lengths.sum() <= 0.0 or all_squares <= 0.0:
        return None
    mean = float(products.sum()) / math.sqrt(float(lengths.sum()) * all_squares)
    without = (lengths.sum() - lengths) * (all_squares - squares)  # each turn left out once
    if (without <= 0.0).any():
        return Estimate(mean, None, None)
    replicates, count = (products.sum() - products) / np.sqrt(without), len(credit)
    error = math.sqrt((count - 1) / count * float(((replicates - replicates.mean()) ** 2).sum()))
    half = student_quantile(count - 1) * error
    return Estimate(mean, mean - half, mean + half)
