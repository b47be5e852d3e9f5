"""The results of an iteration's matches: their number, scores and returns by role, illegal replies, credit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

from arena.records import Episode, flatten_episodes
from league.config import RunConfig
from league.config.context import RunContext
from league.population.evaluation.teams import training_metrics
from league.population.results.payoffs import Result
from league.training.board.observer import Observer
from learners.advantages.rule import Advantages, Need
from learners.advantages.trees import flat_siblings
from learners.groups import flat_groups
from learners.rewards import reward_named
from learners.trajectories import Trajectory

Metrics = dict[str, float]


def count_metrics(context: RunContext, episodes: Iterable[Episode]) -> dict[str, float]:
    """Return ``GAME/matches`` for each of the run's games that was played."""
    played = Counter(episode.request.game for episode in episodes)
    return {f"{game}/matches": float(played[game]) for game in context.specs if played[game]}


def score_metrics(context: RunContext, results: Sequence[Result]) -> dict[str, float]:
    """Return the mean scores, from 0 to 1, of each role's live policies and of each exploiter that played.

    Roles with fixed players, and games of one seat, whose returns are not scores, have none.
    """
    metrics: dict[str, float] = {}
    for game, spec in context.specs.items():
        for role in context.roles[game]:
            players = () if role.fixed else context.live[game]  # any of them, because they may swap seats
            role_results = [r for r in results if (r.game, r.role) == (game, role.name) and r.player in players]
            if role_results and spec.seats > 1:
                metrics[f"{game}/score/{role.name}"] = _mean(role_results)
    for name in context.config.league_roles:
        role_results = [r for r in results if r.player == name]
        if role_results:
            metrics[f"{name}/score"] = _mean(role_results)
    return metrics


def _mean(results: Sequence[Result]) -> float:
    return sum(r.sum_score for r in results) / sum(r.n for r in results)


def failure_metrics(episodes: Iterable[Episode]) -> Metrics:
    """Return ``GAME/failed/ROLE``, how many requests failed after which a match began again, where any did."""
    failed = Counter(place for episode in episodes for place in episode.failed)
    return {"/failed/".join(place.rsplit("/", 1)): float(count) for place, count in failed.items()}


def reply_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the rate of illegal replies in trained seats, and the number of tokens in all replies."""
    turns = [turn for e in flatten_episodes(episodes) for turn in e.turns if e.request.trained[turn.seat]]
    replies = [turn.trace.reply_ids for e in flatten_episodes(episodes) for turn in e.turns if turn.trace is not None]
    return {
        "illegal_rate": sum(turn.action is None for turn in turns) / max(len(turns), 1),
        "reply_tokens": float(sum(map(len, replies))),
    }


def credit_metrics(config: RunConfig, trajectories: Sequence[Trajectory], advantages: Advantages) -> Metrics:
    """Return the mean and spread of the advantages by role, the share of groups with equal returns, and the mean
    rewards where several are weighed.
    """
    by_role: dict[str, list[float]] = {}
    for trajectory, advantages_K in zip(trajectories, advantages, strict=True):
        by_role.setdefault(f"{trajectory.game}/advantage/{trajectory.role}", []).extend(advantages_K)
    metrics: Metrics = {}
    for name, numbers in by_role.items():
        if numbers:
            metrics[f"{name}/mean"], metrics[f"{name}/spread"] = fmean(numbers), float(np.std(numbers))
    metrics |= _reward_metrics(config, trajectories)
    for (game, role), (flat, groups) in _flat_groups(config, trajectories).items():
        metrics[f"{game}/flat_groups/{role}"] = flat / groups
    return metrics


def _reward_metrics(config: RunConfig, trajectories: Sequence[Trajectory]) -> Metrics:
    """Return the mean of each reward that a role's rule weighs, per match."""
    rewards: dict[str, list[float]] = {}
    for trajectory in trajectories:
        game, role = trajectory.game, trajectory.role
        for name in config.credit.rewards(game, role):
            rewards.setdefault(f"{game}/reward/{role}/{name}", []).append(reward_named(trajectory, name))
    return {name: fmean(numbers) for name, numbers in rewards.items()}


def _flat_groups(config: RunConfig, trajectories: Sequence[Trajectory]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return, by (game, role), how many groups or sets of siblings have equal returns, and how many there are."""
    if config.matchmaking.group_size > 1:
        return flat_groups(trajectories)
    game_roles = dict.fromkeys((trajectory.game, trajectory.role) for trajectory in trajectories)
    in_trees = {key for key in game_roles if Need.TREE in config.credit.needs(*key)}
    return flat_siblings([t for t in trajectories if (t.game, t.role) in in_trees])


MATCHES = Observer(lambda record: count_metrics(record.context, record.episodes), description="matches by game")
SCORES = Observer(lambda record: score_metrics(record.context, record.results), description="mean scores by role")
GAMES = Observer(
    lambda record: training_metrics(record.context, record.episodes),
    description="returns, welfare, judges, questions, actions and submatches, where a game has them",
)
REPLIES = Observer(
    lambda record: reply_metrics(record.episodes) | failure_metrics(record.episodes),
    description="illegal replies, tokens, and requests that failed",
)
CREDIT = Observer(
    lambda record: credit_metrics(record.context.config, record.learned.trajectories, record.learned.advantages),
    description="advantages by role, and groups without signal",
)
