"""Keeps many matches in flight and batches what their seats are asked, one batch an engine a round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from arena.records import Episode, MatchRequest, Reply, ReplyRequest, Sampler
from arena.referee import play_match
from games.errors import UsageError
from games.spec import Game
from roles.role import Role


class EngineError(RuntimeError):
    """An engine failed, or broke the rule of one reply for each request."""


@dataclass(slots=True)
class _Match:
    """A match in flight and the request it waits on."""

    position: int  # in the order of the requests
    request: MatchRequest
    game: Game
    course: Generator[ReplyRequest, Reply, Episode]
    asked: ReplyRequest


def play(
    requests: Iterable[MatchRequest],
    *,
    roles_of: Callable[[str], tuple[Role, ...]],
    engine_of: Callable[[str], Sampler],
    make_game: Callable[[str], Game],
    in_flight: int,
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Episode]:
    """Play all matches and return their episodes in the order of the requests.

    ``roles_of`` takes a game's name, ``engine_of`` a player's id; each is asked once for a name.
    ``on_episode`` sees every episode as soon as it ends. A match draws from its own two seeds only, so
    the same requests give the same episodes whatever ``in_flight``.

    Raises EngineError, with engine and players named, if an engine raises or returns a wrong number
    of replies. A UsageError and an interruption pass as they are.
    """
    if in_flight < 1:
        raise UsageError(f"in_flight = {in_flight}: at least one match must be in flight.")
    roles, engines = cache(roles_of), cache(engine_of)
    idle: defaultdict[str, list[Game]] = defaultdict(list)  # finished matches' games, to be reset
    waiting = enumerate(requests)
    finished: dict[int, Episode] = {}

    def finish(position: int, game: Game, episode: Episode) -> None:
        finished[position] = episode
        idle[episode.request.game].append(game)
        if on_episode is not None:
            on_episode(episode)

    def start() -> Iterator[_Match]:
        for position, request in waiting:
            game = idle[request.game].pop() if idle[request.game] else make_game(request.game)
            course = play_match(request, game, roles(request.game))
            try:
                yield _Match(position, request, game, course, next(course))
            except StopIteration as stop:  # a match in which nobody ever acts
                finish(position, game, stop.value)

    newcomers = start()
    flying: list[_Match] = []
    while True:
        while len(flying) < in_flight and (match := next(newcomers, None)) is not None:
            flying.append(match)
        if not flying:
            return [finished[position] for position in range(len(finished))]
        still_flying = []
        for match, reply in zip(flying, _replies([match.asked for match in flying], engines), strict=True):
            try:
                match.asked = match.course.send(reply)
                still_flying.append(match)
            except StopIteration as stop:
                finish(match.position, match.game, stop.value)
        flying = still_flying


def _replies(asked: Sequence[ReplyRequest], engine_of: Callable[[str], Sampler]) -> list[Reply]:
    """Return the reply to each request, with one call of each engine."""
    places: dict[int, list[int]] = {}
    engines: dict[int, Sampler] = {}
    for place, request in enumerate(asked):
        engine = engine_of(request.player)
        key = id(engine)
        if key not in places:
            places[key], engines[key] = [], engine
        places[key].append(place)
    if len(places) == 1:
        return _sample(engine, asked)
    replies: list[Reply] = [Reply("")] * len(asked)
    for key, engine in engines.items():
        for place, reply in zip(places[key], _sample(engine, [asked[place] for place in places[key]]), strict=True):
            replies[place] = reply
    return replies


def _sample(engine: Sampler, asked: Sequence[ReplyRequest]) -> list[Reply]:
    """Call an engine; raise EngineError if it fails or does not answer one for one."""
    try:
        replies = engine.sample(asked)
    except UsageError:
        raise
    except Exception as error:
        raise EngineError(
            f"The engine {_name(engine)} failed on {len(asked)} requests for {_players(asked)}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if len(replies) != len(asked):
        raise EngineError(
            f"The engine {_name(engine)} gave {len(replies)} replies to {len(asked)} requests for {_players(asked)}; "
            "a sampler must return one reply for each request, in their order."
        )
    return replies


def _name(engine: Sampler) -> str:
    return type(engine).__name__


def _players(asked: Sequence[ReplyRequest]) -> str:
    """Return the asked players' ids, cut short after five."""
    names = sorted({request.player for request in asked})
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
