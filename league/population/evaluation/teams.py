"""Teams: games of one seat whose matches may open submatches for other roles; their casts, matches and metrics.

A team has no opponent, so it has no rating; two teams are compared by their returns on the same deals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from statistics import fmean

from arena.records import Cast, Episode, MatchRequest, flatten_episodes
from arena.submatches import play_again
from games.abilities import HasInformation
from games.common.seeds import derive_seed
from games.openspiel.repeated import is_repeated, stage_game
from games.registry import make_game, with_submatches
from games.spec import GameSpec, Utility
from league.config.context import RunContext
from league.population.evaluation.welfare import welfare_metrics
from league.population.results.judges import judge_metrics
from roles.role import Role, Roles

Metrics = dict[str, float]


def live_cast(spec: GameSpec, roles: Roles, learning: Collection[str] = ()) -> tuple[Cast, ...]:
    """Return the policies bound to the roles of a game's submatches, trained if they are ``learning``."""
    casts = []
    for game in with_submatches([spec.name])[1:] if spec.submatch_games else ():
        players = tuple(role.policy for role in roles[game])
        casts.append(Cast(game, players, tuple(player in learning for player in players)))
    return tuple(casts)


def single_player_cast(player: str, spec: GameSpec, roles: Roles) -> tuple[Cast, ...]:
    """Return one player in all seats of a game's submatches except those of fixed players, untrained."""
    return tuple(
        cast._replace(players=all_seats(player, roles[cast.game]), trained=(False,) * len(cast.players))
        for cast in live_cast(spec, roles)
    )


def all_seats(player: str, roles: Sequence[Role]) -> tuple[str, ...]:
    """Return who sits in a game's seats when one player takes all seats without a fixed player."""
    return tuple(role.policy if role.fixed else player for role in roles)


def training_metrics(context: RunContext, episodes: Sequence[Episode]) -> Metrics:
    """Return metrics of training matches in games where winning is not the aim, and the number of submatches per match.

    In cooperative and general-sum games these are each trained role's mean return, and welfare against the best
    possible; in repeated games also each action's share of the trained seats' actions, such as cooperate. Games with a
    judge have its accuracy; games with questions, the bits that a question was expected to reveal.
    """
    metrics: Metrics = {}
    members = flatten_episodes(episodes)
    for game, spec in context.all_specs.items():
        group = [episode for episode in members if episode.request.game == game]
        for role in context.roles[game] if spec.utility in (Utility.IDENTICAL, Utility.GENERAL_SUM) else ():
            returns = [episode.returns[role.seat] for episode in group if episode.request.trained[role.seat]]
            if returns:
                metrics[f"{game}/return/{role.name}"] = fmean(returns)
        metrics |= judge_metrics(game, group) | welfare_metrics(spec, group) | question_metrics(game, group)
        if is_repeated(game):
            metrics |= {f"{game}/share/{action}": share for action, share in action_shares(group).items()}
        if spec.submatch_games and group:
            opened = [len(episode.children) for episode in episodes if episode.request.game == game]
            metrics[f"{game}/submatches"] = fmean(opened)
    return metrics


def question_metrics(game: str, episodes: Sequence[Episode]) -> Metrics:
    """Return ``GAME/bits_per_question``, the mean information gain; {} if no question was asked.

    Matches are replayed from their records, up to a forfeit if there was one.
    """
    match, bits = make_game(game), list[float]()
    if not isinstance(match, HasInformation):
        return {}
    for episode in episodes:
        play_again(match, episode)
        bits += match.information()
    return {f"{game}/bits_per_question": fmean(bits)} if bits else {}


def action_shares(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the share of each action among those of the trained seats of repeated games, by its name."""
    played = Counter(
        turn.action
        for episode in episodes
        for turn in episode.turns
        if turn.action is not None and episode.request.trained[turn.seat]
    )
    names = sorted(
        {action for episode in episodes[:1] for seat in stage_game(episode.request.game).actions for action in seat}
    )
    return {name: played[name] / played.total() for name in names} if played else {}


def team_matches(
    spec: GameSpec, roles: Roles, anchors: Sequence[str], deals: int, run_seed: int, first_index: int
) -> list[MatchRequest]:
    """Return matches of the live team and of each anchor, all on the same held-out deals."""
    requests: list[MatchRequest] = []
    live = tuple(role.policy for role in roles[spec.name])
    teams = [
        (live, live_cast(spec, roles)),
        *((all_seats(anchor, roles[spec.name]), single_player_cast(anchor, spec, roles)) for anchor in anchors),
    ]
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
    """Return the mean return of the live team in ``team_matches``, and its score against each anchor deal by deal."""
    deals = len(episodes) // (1 + len(anchors))
    returns = [episode.returns[0] for episode in episodes]
    metrics = {f"{spec.name}/held_out_return": fmean(returns[:deals])}
    for number, anchor in enumerate(anchors, 1):
        anchor_returns = returns[number * deals : (number + 1) * deals]
        metrics[f"{spec.name}/held_out_return_of_{anchor}"] = fmean(anchor_returns)
        points = [0.5 * ((a > b) + (a >= b)) for a, b in zip(returns[:deals], anchor_returns, strict=True)]
        metrics[f"{spec.name}/score_against_{anchor}"] = fmean(points)
    return metrics
