"""Teams: games of one seat, alone or with matches that they open for other roles. Who sits where, and how they do.

A team meets nobody, so it has no rating; two of them are compared by what they make of the same deals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from arena.records import Cast, Episode, MatchRequest, family
from games.registry import with_opened
from games.seeds import derive_seed
from games.spec import GameSpec, Utility
from league.start import Roles

Metrics = dict[str, float]


def live_cast(spec: GameSpec, roles: Roles, learning: Collection[str] = ()) -> tuple[Cast, ...]:
    """Return the policies bound to the roles of the matches that a game may open, trained if they are ``learning``."""
    casts = []
    for game in with_opened([spec.name])[1:] if spec.opens else ():
        players = tuple(role.policy for role in roles[game])
        casts.append(Cast(game, players, tuple(player in learning for player in players)))
    return tuple(casts)


def team_of(player: str, spec: GameSpec, roles: Roles) -> tuple[Cast, ...]:
    """Return one player in all seats of the matches that a game may open."""
    return tuple(
        cast._replace(players=(player,) * len(cast.players), trained=(False,) * len(cast.players))
        for cast in live_cast(spec, roles)
    )


def training_metrics(episodes: Sequence[Episode], specs: Mapping[str, GameSpec], roles: Roles) -> Metrics:
    """Return, of cooperative games, the mean return of each role in training and how many matches one opened."""
    metrics: Metrics = {}
    members = family(episodes)
    for game, spec in specs.items():
        own = [one for one in members if one.request.game == game]
        for role in roles[game] if spec.utility is Utility.IDENTICAL else ():
            returns = [one.returns[role.seat] for one in own if one.request.trained[role.seat]]
            if returns:
                metrics[f"{game}/return/{role.name}"] = fmean(returns)
        if spec.opens and own:
            metrics[f"{game}/opened"] = fmean(len(one.children) for one in episodes if one.request.game == game)
    return metrics


def team_matches(
    spec: GameSpec, roles: Roles, anchors: Sequence[str], deals: int, run_seed: int, first_index: int
) -> list[MatchRequest]:
    """Return matches of the live team and of each anchor, all on the same deals, which training never draws."""
    requests: list[MatchRequest] = []
    live = tuple(role.policy for role in roles[spec.name])
    teams = [(live, live_cast(spec, roles)), *(((one,), team_of(one, spec, roles)) for one in anchors)]
    for number, (players, cast) in enumerate(teams):
        for deal in range(deals):
            seeds = (
                derive_seed(run_seed, "team deal", spec.name, deal),
                derive_seed(run_seed, "team sample", spec.name, deal, number),
            )
            index = first_index + len(requests)
            requests.append(MatchRequest(index, spec.name, *seeds, players, (False,), "rating", cast=cast))
    return requests


def team_metrics(spec: GameSpec, anchors: Sequence[str], episodes: Sequence[Episode]) -> Metrics:
    """Return the mean return of a team in its ``team_matches``, and how it did against each anchor deal by deal."""
    deals = len(episodes) // (1 + len(anchors))
    returns = [episode.returns[0] for episode in episodes]
    metrics = {f"{spec.name}/held_out_return": fmean(returns[:deals])}
    for number, anchor in enumerate(anchors, 1):
        theirs = returns[number * deals : (number + 1) * deals]
        metrics[f"{spec.name}/held_out_return_of_{anchor}"] = fmean(theirs)
        points = [0.5 * ((a > b) + (a >= b)) for a, b in zip(returns[:deals], theirs, strict=True)]
        metrics[f"{spec.name}/score_against_{anchor}"] = fmean(points)
    return metrics
