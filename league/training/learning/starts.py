"""A run's starts: the initial ones, those that follow mastered starts, and those that its matches leave.

Matches leave the tasks that were written in them, and starts in their middle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from arena.records import EndReason, Episode, MatchRequest, Start, flatten_episodes
from arena.scheduler import play
from arena.submatches import middle, play_again, task_start
from games.abilities import LeavesTasks, TakesTasks
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.tasks.proposers.rewards import similarity
from league.config import RunConfig
from league.config.context import RunContext
from league.population.players.scripted import scripted_forms, scripted_player
from league.training.starts.draw import from_starts
from league.training.starts.frontier import frontier
from league.training.starts.measured import StoredStart
from league.training.starts.pool import StartPool
from league.training.starts.rules import START_RULES, Moment

Metrics = dict[str, float]


def first_starts(context: RunContext, games: Sequence[str] = (), born: int = 0) -> list[StoredStart]:
    """Return the pool's initial starts, of all games of the run or of some; none without a rule.

    Raises UsageError for an expert that cannot play one of the games.
    """
    rule = context.config.starts.rule
    if rule is None:
        return []
    make = _of_deals if START_RULES[rule].children is None else _of_expert
    return [start._replace(born=born) for game in games or context.specs for start in make(context, game)]


def with_starts(
    config: RunConfig, pool: StartPool | None, requests: list[MatchRequest], iteration: int
) -> list[MatchRequest]:
    """Return an iteration's matches of one game, from starts that the run's rule draws."""
    if pool is None or not requests:
        return requests
    moment = Moment(iteration, config.iterations, config.starts)
    return from_starts(requests, pool.starts(requests[0].game), moment, config.seed)


def record_starts(context: RunContext, pool: StartPool | None, episodes: Sequence[Episode], iteration: int) -> Metrics:
    """Count an iteration's matches in the pool, add the starts that follow or were written in them, and return metrics.

    Attempts at written tasks, which are submatches, count as matches from them.
    """
    config = context.config
    if pool is None:
        return {}
    proposed = _proposed(episodes, iteration) + left_tasks(episodes, config.starts.failures, config.seed, iteration)
    made = unlike(proposed, pool, config.starts.alike)
    metrics: Metrics = {}
    if config.starts.alike < 1.0:
        metrics["starts/alike"] = float(len(proposed) - len(made))
    children = None if config.starts.rule is None else START_RULES[config.starts.rule].children
    for game in context.specs:
        starts = pool.starts(game)
        if not starts:  # a game that an evolved run added
            made += first_starts(context, [game], iteration)
        elif children is not None:
            made += children(starts, config.starts, iteration)
        if config.starts.middles:
            made += middles(episodes, game, config.starts.middles, config.seed, iteration)
    left_out = {start.name for start in proposed} - {start.name for start in made}
    attempts = [episode for episode in _attempts(episodes) if episode.request.start not in left_out]
    pool.record(attempts, context.all_specs, iteration, made)
    for game in pool.games():
        starts = pool.starts(game)
        metrics |= frontier(game, starts) | _author_metrics(game, starts)
    return metrics


def _proposed(episodes: Sequence[Episode], iteration: int) -> list[StoredStart]:
    """Return the tasks that were attempted in matches that wrote them, each once; its author is the writing player."""
    by_name: dict[str, StoredStart] = {}
    members = flatten_episodes(episodes)
    by_index = {episode.request.index: episode.request for episode in members}
    for request in (episode.request for episode in members):
        if request.parent is not None and request.start and request.start not in by_name:
            writer, start = by_index[request.parent], Start(request.game, request.deal_seed, request.task)
            size = _task_size(start)
            by_name[start.name] = StoredStart(start, size, writer.start, writer.players[0], iteration)
    return list(by_name.values())


def left_tasks(episodes: Sequence[Episode], count: int, seed: int, iteration: int) -> list[StoredStart]:
    """Return the tasks that ``count`` failed attempts of each game leave, drawn from all of an iteration's.

    The parent is the task that was attempted. Equal tasks are one start.
    """
    left: dict[str, dict[str, StoredStart]] = {}
    played = flatten_episodes(episodes) if count else []
    games = {name: make_game(name) for name in {episode.request.game for episode in played}}
    for episode in played:
        request, game = episode.request, games[episode.request.game]
        if not isinstance(game, LeavesTasks) or not any(request.trained) or episode.end is not EndReason.FINISHED:
            continue
        play_again(game, episode)
        if task := game.left_task():
            start = task_start(request.game, task)
            stored = StoredStart(start, _task_size(start), request.start, request.players[0], iteration)
            left.setdefault(request.game, {}).setdefault(start.name, stored)
    made = []
    for name, starts in left.items():
        rng, of_game = np.random.default_rng(derive_seed(seed, "left", iteration, name)), [*starts.values()]
        made += [of_game[place] for place in sorted(rng.permutation(len(of_game))[:count])]
    return made


def unlike(proposed: Sequence[StoredStart], pool: StartPool, alike: float) -> list[StoredStart]:
    """Return the tasks that are like none in the pool and like none before them (CuES refuses near duplicates)."""
    if alike >= 1.0:
        return [*proposed]
    known = {game: [one.start.task for one in pool.starts(game)] for game in {one.start.game for one in proposed}}
    kept = []
    for one in proposed:
        tasks = known[one.start.game]
        if one.start.task in tasks or max((similarity(one.start.task, task) for task in tasks), default=0.0) < alike:
            kept.append(one)
            tasks.append(one.start.task)
    return kept


def middles(episodes: Sequence[Episode], game: str, count: int, seed: int, iteration: int) -> list[StoredStart]:
    """Return starts in the middle of ``count`` of an iteration's own matches of a game, or of all if there are fewer.

    What leads to a position is then played once, and what follows it often, as Go-Explore returns to states that it has
    reached (Ecoffet et al. 2021, "First return, then explore"). Matches are drawn without replacement, and in each how
    many of its actions are taken as played, from 1 to all but the last. Matches with one action, forfeited ones and
    those that continue from another's middle have none.
    """
    lines = [(episode, turns) for episode in episodes if len(turns := _action_turns(episode, game)) > 1]
    rng = np.random.default_rng(derive_seed(seed, "middles", iteration, game))
    made = []
    for place in rng.permutation(len(lines))[:count]:
        episode, turns = lines[place]
        request, kept = episode.request, int(rng.integers(1, len(turns)))
        begun = middle(episode, turns[kept - 1] + 1)
        start = Start(game, request.deal_seed, request.task, begun.prefix, begun.attempts)
        author = next(player for player, trained in zip(request.players, request.trained, strict=True) if trained)
        made.append(StoredStart(start, len(turns) - kept, request.start, author, iteration))
    return made


def _action_turns(episode: Episode, game: str) -> list[int]:
    """Return the places of a match's turns that played an action; none of one that others cannot continue from."""
    request = episode.request
    whole = request.parent is None and not request.fork and episode.end is EndReason.FINISHED
    if request.game != game or not whole or not any(request.trained):
        return []
    return [place for place, turn in enumerate(episode.turns) if turn.action is not None and not turn.tool]


def _attempts(episodes: Sequence[Episode]) -> Iterator[Episode]:
    """Yield the matches that started from starts: an iteration's own, and the attempts that they opened."""
    return (episode for episode in flatten_episodes(episodes) if episode.request.start)


def _task_size(start: Start) -> int:
    """Return the size of a start's task, or the most turns of its game if the game has no tasks."""
    game = make_game(start.game)
    game.reset(start.seed)
    if not isinstance(game, TakesTasks):
        return game.spec.max_turns
    if start.task:
        game.start_task(start.task)
    return game.task_size()


def _author_metrics(game: str, starts: Sequence[StoredStart]) -> Metrics:
    """Return each author's share of a game's starts, and the solve rate of its starts that were played."""
    metrics, counts = Metrics(), Counter(start.author for start in starts)
    for author, count in sorted(counts.items()) if set(counts) != {"seed"} else ():
        metrics[f"{game}/starts/by/{author}"] = count / len(starts)
        if rates := [start.rate for start in starts if start.author == author and start.plays]:
            metrics[f"{game}/starts/solved_of/{author}"] = fmean(rates)
    return metrics


def _of_deals(context: RunContext, game: str) -> Iterator[StoredStart]:
    """Yield the starts of new deals, each with the size of its task."""
    for number in range(context.config.starts.size):
        start = Start(game, derive_seed(context.config.seed, "start", game, number))
        yield StoredStart(start, _task_size(start), author="seed")


def _of_expert(context: RunContext, game: str) -> Iterator[StoredStart]:
    """Yield for each deal the start that leaves the last action of the expert's match."""
    expert = context.config.starts.expert
    engine = scripted_player(expert)
    if engine is None:
        forms = ", ".join(scripted_forms())
        raise UsageError(f"starts.expert = {expert!r} is not a scripted player. Choose from {forms}.")
    seats = context.specs[game].seats
    requests = [
        MatchRequest(
            number,
            game,
            start.start.seed,
            derive_seed(context.config.seed, "expert", game, number),
            (expert,) * seats,
            (False,) * seats,
        )
        for number, start in enumerate(_of_deals(context, game))
    ]
    episodes = play(requests, roles_of=context.roles.__getitem__, engine_of=lambda _: engine, make_game=make_game)
    for episode in episodes:
        actions = tuple(turn.action for turn in episode.turns if turn.action is not None and not turn.tool)
        yield StoredStart(Start(game, episode.request.deal_seed, prefix=actions[:-1]), size=1, author=expert)
