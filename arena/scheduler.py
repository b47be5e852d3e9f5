"""Keeps many matches in flight: one batch an engine a round, or each reply as it comes where an engine can do that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

from arena.desk import Desk, keeps, streams
from arena.errors import EngineError
from arena.openings import outcome_of
from arena.records import EndReason, Episode, MatchRequest, Reply, ReplyRequest, Sampler, Streaming
from arena.referee import play_match
from games.errors import UsageError
from games.spec import Game
from roles.role import Role

Engine = Sampler | Streaming


def play(
    requests: Iterable[MatchRequest],
    *,
    roles_of: Callable[[str], tuple[Role, ...]],
    engine_of: Callable[[str], Engine],
    make_game: Callable[[str], Game],
    in_flight: int,
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Episode]:
    """Play all matches and return their episodes in the order of the requests.

    ``roles_of`` takes a game's name, ``engine_of`` a player's id; each is asked once for a name. An engine
    that is ``Streaming`` is given each request by itself, and a match goes on as soon as its reply has come;
    any other is called once a round. ``on_episode`` sees every episode as soon as it ends, with those that it
    opened. Matches that matches open are played beside all others; one that waits for them takes no place in
    flight. A match draws from its own two seeds only, so the same requests give the same episodes whatever
    ``in_flight`` and in whatever order replies come.

    Raises EngineError, with engine and players named, if an engine raises or returns a wrong number
    of replies. A UsageError and an interruption pass as they are. Requests under way are cancelled then.
    """
    if in_flight < 1:
        raise UsageError(f"in_flight = {in_flight}: at least one match must be in flight.")
    engines = cache(engine_of)
    waiting = enumerate(requests)
    flying: list[_Match] = []
    with closing(Desk[_Match](engines)) as desk:
        hall = _Hall(cache(roles_of), make_game, on_episode, desk)
        while True:
            room = max(in_flight - len(flying) - len(desk), 0)
            newcomers = [hall.seat(place, request) for place, request in islice(waiting, room)]
            flying += hall.advance(newcomers, [None] * len(newcomers))
            if flying:
                flying = hall.advance(*_ask(flying, engines, desk))
                flying += hall.advance(*desk.replies(wait=False))
            elif desk:
                flying = hall.advance(*desk.replies(wait=True))
            elif not newcomers:
                return [hall.episodes[place] for place in range(len(hall.episodes))]


@dataclass(slots=True)
class _Match:
    """A match in flight and the request, or the matches that it opened, on which it waits."""

    place: int  # in the order of the requests
    players: tuple[str, ...]  # [seats]
    game: Game
    course: Generator[ReplyRequest | tuple[MatchRequest, ...], Any, Episode]
    opener: _Match | None
    asked: ReplyRequest = field(init=False)
    opened: list[Episode | None] = field(init=False)  # None: still played
    kept: dict[str, str] | None = (
        None  # ids of the weights that it and all below it play with, where an engine has some
    )


class _Hall:
    """Where matches are played: their games, used again and again, and their episodes by place."""

    def __init__(
        self,
        roles_of: Callable[[str], tuple[Role, ...]],
        make_game: Callable[[str], Game],
        on_episode: Callable[[Episode], None] | None,
        desk: Desk[_Match],
    ) -> None:
        self.episodes: dict[int, Episode] = {}
        self._roles_of = roles_of
        self._make_game = make_game
        self._on_episode = on_episode
        self._desk = desk
        self._idle: defaultdict[str, list[Game]] = defaultdict(list)

    def seat(self, place: int, request: MatchRequest, opener: _Match | None = None) -> _Match:
        """Return a match that has not begun."""
        idle = self._idle[request.game]
        game = idle.pop() if idle else self._make_game(request.game)
        course = play_match(request, game, self._roles_of(request.game))
        return _Match(place, request.players, game, course, opener)

    def advance(self, matches: Sequence[_Match], replies: Sequence[Any]) -> list[_Match]:
        """Give each match what it waits for (None begins it); return those that ask for a reply."""
        going: list[_Match] = []
        for match, reply in zip(matches, replies, strict=True):
            try:
                wanted = match.course.send(reply)
            except StopIteration as stop:
                going += self._finish(match, stop.value)
                continue
            if isinstance(wanted, ReplyRequest):
                match.asked = wanted
                going.append(match)
            else:
                going += self._open(match, wanted)
        return going

    def _open(self, match: _Match, requests: Sequence[MatchRequest]) -> list[_Match]:
        """Begin the matches that a match opens; return those that ask for a reply."""
        match.opened = [None] * len(requests)
        children = [self.seat(place, request, match) for place, request in enumerate(requests)]
        return self.advance(children, [None] * len(children))

    def _finish(self, match: _Match, episode: Episode) -> Sequence[_Match]:
        """Record a match that is over; return its opener if that goes on now."""
        self._idle[episode.request.game].append(match.game)
        opener = match.opener
        if match.kept:
            self._desk.let_go(match.kept)
        if opener is not None:
            finished = episode.end is EndReason.FINISHED
            opener.opened[match.place] = episode._replace(outcome=outcome_of(match.game)) if finished else episode
            return () if None in opener.opened else self.advance([opener], [opener.opened])
        self.episodes[match.place] = episode
        if self._on_episode is not None:
            self._on_episode(episode)
        return ()


def _ask(
    flying: Sequence[_Match], engine_of: Callable[[str], Engine], desk: Desk[_Match]
) -> tuple[Sequence[_Match], Sequence[Reply]]:
    """Ask for all: return who is answered now, with one call of each engine, and the answers.

    Requests for engines that answer one at a time are handed in at the desk.
    """
    asked = [match.asked for match in flying]
    engines: dict[int, Any] = {id(one): one for one in map(engine_of, {request.player for request in asked})}
    if len(engines) == 1:
        [engine] = engines.values()
        if not streams(engine):
            return flying, _sample(engine, asked)
    matches_of: dict[int, list[_Match]] = {}
    for match in flying:
        matches_of.setdefault(id(engine_of(match.asked.player)), []).append(match)
    answered: list[_Match] = []
    replies: list[Reply] = []
    for key, matches in matches_of.items():
        if streams(engines[key]):
            for match in matches:
                request = _as_kept(match, desk) if keeps(engines[key]) else match.asked
                desk.submit(match, engines[key], request, match.asked.player)
        else:
            answered += matches
            replies += _sample(engines[key], [match.asked for match in matches])
    return answered, replies


def _as_kept(match: _Match, desk: Desk[_Match]) -> ReplyRequest:
    """Return what a match asks, of the weights that its players had when it began, or the match that opened it."""
    first = match
    while first.opener is not None:
        first = first.opener
    first.kept = kept = {} if first.kept is None else first.kept
    if match.asked.player not in kept:
        desk.keep((*first.players, *match.players), kept)
    return match.asked._replace(player=kept[match.asked.player])


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
