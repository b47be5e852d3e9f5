"""The matches that judge a run's games: the newest snapshots, a control and the best snapshots so far, deal by deal.

On each deal all of them take the same seats beside the same co-players, which are snapshots of the population. So their
scores can be compared, and the newest one's share of the best score is known (``league.theory.statistics``).
``league.population.matchmaking.curriculum`` decides which games are trained until the next snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import NamedTuple

from arena.records import Episode, MatchRequest
from games.aliases import short_name
from games.common.seeds import derive_seed
from games.spec import GameSpec
from league.config import RunConfig
from league.config.checks.features import matches_to_judge
from league.config.context import RunContext
from league.config.load import run_roles
from league.config.matchmaking import PREVIOUS
from league.population.evaluation.teams import all_seats
from league.population.matchmaking.curriculum import Fitness, Judgement, active_games, judge
from league.population.storage.members import JudgedGames
from league.theory.statistics import normalised, percentiles
from league.training.checkpoints.run_state import RunState
from league.training.snapshots.measure import Metrics, Play
from roles.role import Role, Roles

Lineup = tuple[str, ...]  # player id by seat  # [seats]
NEWEST, CONTROL, BEST = "newest", "control", "best"


class _JudgingMatch(NamedTuple):
    """A match before it is played: the player that is scored in it, and its seat."""

    who: str
    seat: int
    request: MatchRequest


def judge_games(
    context: RunContext, state: RunState, play: Play, tell: Callable[[str], object] | None = None
) -> Metrics:
    """Judge a run's games after its main policies were frozen; decide which are trained, and return metrics.

    ``tell`` is called with a sentence. Nothing is played without ``curriculum.matches``, or beyond its bound.
    """
    config, roles, settings = context.config, context.roles, context.config.curriculum
    most = settings.most_matches
    if not settings.matches or (most and state.judged.matches + matches_to_judge(config, roles) > most):
        return {}
    matches = {game: _matches_of(config, spec, roles[game], state) for game, spec in context.specs.items()}
    requests = [match.request for of_game in matches.values() for match in of_game]
    requests = [request._replace(index=state.next_match + number) for number, request in enumerate(requests)]
    state.next_match += len(requests)
    played = iter(play(requests))
    scores = {game: _scores(context.specs[game], of_game, played) for game, of_game in matches.items()}
    judged = {game: judge(of[NEWEST], of[CONTROL], settings) for game, of in scores.items()}
    rng = random.Random(derive_seed(config.seed, "active games", state.iteration))
    before = state.judged
    state.judged = JudgedGames(
        active_games(judged, settings, rng),
        {game: str(judgement.fitness) for game, judgement in judged.items()},
        {game: _best(of, _newest(roles[game], state), before.best.get(game)) for game, of in scores.items()},
        before.matches + len(requests),
    )
    if tell is not None:
        tell(sentence(context, state))
    shares = {game: _share(of) for game, of in scores.items()}
    return _metrics(judged, shares, state.judged)


def budget(context: RunContext) -> str:
    """Return a sentence on the most that a run plays, before it starts."""
    judging = _bound(context.config, context.roles)
    return f"Budget: {_training(context.config):,} training matches and {judging:,} that judge games, at most."


def most_matches(config: RunConfig) -> int:
    """Return the most matches that a run plays, to train and to judge games."""
    return _training(config) + _bound(config, run_roles(config))


def sentence(context: RunContext, state: RunState) -> str:
    """Return a sentence on which games are trained, why others are not, and how much of the budget was spent."""
    judged = state.judged
    unfit = {
        kind: [short_name(game) for game, fitness in judged.fitness.items() if fitness == kind]
        for kind in Fitness
        if kind is not Fitness.FIT
    }
    why = "".join(f"; {kind}: {', '.join(games)}" for kind, games in unfit.items() if games)
    fully = " in full" if context.config.curriculum.kept else ""
    return (
        f"Iteration {state.iteration}: {len(judged.active)} of {len(context.specs)} games are trained{fully}{why}. "
        f"Matches that judge games: {judged.matches:,} of {_bound(context.config, context.roles):,}."
    )


def _training(config: RunConfig) -> int:
    """Return the most matches that train a run."""
    return sum(game.matches * -(-config.iterations // game.every) for game in config.games.values())


def _bound(config: RunConfig, roles: Roles) -> int:
    """Return the most matches that judge games in the whole run."""
    snapshots = 1 + -(-config.iterations // config.snapshot_every)
    needed = snapshots * matches_to_judge(config, roles)
    return min(needed, config.curriculum.most_matches or needed)


def _places(config: RunConfig, roles: Sequence[Role]) -> list[tuple[int, int]]:
    """Return a game's deals with the scored seats, each free seat on every deal."""
    free = [role.seat for role in roles if not role.fixed]
    deals = -(-config.curriculum.matches // max(len(free), 1))
    return [(deal, seat) for deal in range(deals) for seat in free]


def _matches_of(config: RunConfig, spec: GameSpec, roles: Sequence[Role], state: RunState) -> list[_JudgingMatch]:
    """Return the matches that judge a game."""
    newest, coplayers = _newest(roles, state), _coplayers(config, spec.name, roles, state)
    lineups = {NEWEST: newest, CONTROL: _control(config, roles, state)}
    if (best := state.judged.best.get(spec.name, newest)) != newest:
        lineups[BEST] = best
    matches = []
    for deal, seat in _places(config, roles):
        stream = spec.name, state.iteration, deal
        coplayers_of_deal = coplayers[deal % len(coplayers)]
        for who, lineup in lineups.items():
            request = MatchRequest(
                index=0,
                game=spec.name,
                deal_seed=derive_seed(config.seed, "judging deal", *stream),
                sample_seed=derive_seed(config.seed, "judging sample", *stream, seat, who),
                players=(*coplayers_of_deal[:seat], lineup[seat], *coplayers_of_deal[seat + 1 :]),
                trained=(False,) * spec.seats,
                rule="curriculum",
            )
            matches.append(_JudgingMatch(who, seat, request))
    return matches


def _newest(roles: Sequence[Role], state: RunState) -> Lineup:
    """Return the newest snapshots by seat, beside fixed players."""
    return tuple(role.policy if role.fixed else state.population.newest(role.policy).id for role in roles)


def _control(config: RunConfig, roles: Sequence[Role], state: RunState) -> Lineup:
    """Return the control by seat."""
    if config.curriculum.control != PREVIOUS:
        return all_seats(config.curriculum.control, roles)
    return tuple(role.policy if role.fixed else state.population.all(role.policy)[-2:][0].id for role in roles)


def _coplayers(config: RunConfig, game: str, roles: Sequence[Role], state: RunState) -> list[Lineup]:
    """Return line-ups drawn from the population, with as many snapshots of each policy as an iteration meets."""
    rng = random.Random(derive_seed(config.seed, "co-players", game, state.iteration))
    ids_of: dict[str, list[str]] = {}
    for name in dict.fromkeys(role.policy for role in roles if not role.fixed):
        ids = [s.id for s in state.population.all(name) if s.id not in state.retired]
        ids_of[name] = rng.sample(ids, min(config.matchmaking.opponents, len(ids)))
    count = max(map(len, ids_of.values()), default=1)
    return [
        tuple(role.policy if role.fixed else ids_of[role.policy][i % len(ids_of[role.policy])] for role in roles)
        for i in range(count)
    ]


def _scores(spec: GameSpec, matches: Sequence[_JudgingMatch], episodes: Iterator[Episode]) -> dict[str, list[float]]:
    """Return the scores by player, each a return's position in the game's range; consumes one episode a match."""
    scores: dict[str, list[float]] = {}
    for match, episode in zip(matches, islice(episodes, len(matches)), strict=True):
        score = (episode.returns[match.seat] - spec.min_return) / (spec.max_return - spec.min_return)
        scores.setdefault(match.who, []).append(score)
    return scores


def _best(scores: Mapping[str, Sequence[float]], newest: Lineup, before: Lineup | None) -> Lineup:
    """Return the line-up with the best score so far; only a better score on the same deals replaces it."""
    if before is None or BEST not in scores or fmean(scores[NEWEST]) > fmean(scores[BEST]):
        return newest
    return before


def _share(scores: Mapping[str, Sequence[float]]) -> float:
    """Return the newest snapshots' score as a share of the population's best on the same deals."""
    newest = fmean(scores[NEWEST])
    return normalised(newest, max(newest, fmean(scores.get(BEST, [newest]))))


def _metrics(judged: Mapping[str, Judgement], shares: Mapping[str, float], after: JudgedGames) -> Metrics:
    """Return the board's metrics of the games, and of the population over them."""
    metrics: Metrics = {"curriculum/active": float(len(after.active)), "curriculum/matches": float(after.matches)}
    metrics |= {f"curriculum/percentile_{p}": value for p, value in percentiles(shares).items()}
    for game, judgement in judged.items():
        metrics |= {
            f"{game}/curriculum/{name}": float(value)
            for name, value in (
                ("score", judgement.score),
                ("control", judgement.control),
                ("high", judgement.high),
                ("better", judgement.better),
                ("normalised", shares[game]),
                ("active", game in after.active),
            )
        }
    return metrics
