"""How many matches an iteration had of each game, and their mean scores, by role and of exploiters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from arena.records import Episode
from league.config.context import RunContext
from league.population.results.payoffs import Result


def count_metrics(context: RunContext, episodes: Iterable[Episode]) -> dict[str, float]:
    """Return ``GAME/matches`` of each of the run's games that was played."""
    played = Counter(episode.request.game for episode in episodes)
    return {f"{game}/matches": float(played[game]) for game in context.specs if played[game]}


def score_metrics(context: RunContext, results: Sequence[Result]) -> dict[str, float]:
    """Return the mean scores, from 0 to 1, of each role's live policies and of each exploiter that played.

    Roles of given players, and games of one seat, whose returns are no scores, have none.
    """
    metrics: dict[str, float] = {}
    for game, spec in context.specs.items():
        for role in context.roles[game]:
            players = () if role.given else context.live[game]  # any of them, because they may swap seats
            mine = [r for r in results if (r.game, r.role) == (game, role.name) and r.player in players]
            if mine and spec.seats > 1:
                metrics[f"{game}/score/{role.name}"] = _mean(mine)
    for name in context.config.league_roles:
        mine = [r for r in results if r.player == name]
        if mine:
            metrics[f"{name}/score"] = _mean(mine)
    return metrics


def _mean(results: Sequence[Result]) -> float:
    return sum(r.sum_score for r in results) / sum(r.n for r in results)
