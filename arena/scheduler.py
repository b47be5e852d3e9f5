"""Keeps many matches in flight and batches what their seats are asked, one batch an engine a round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

from arena.openings import outcome_of
from arena.records import EndReason, Episode, MatchRequest, Reply, ReplyRequest, Sampler
from arena.referee import play_match
from games.errors import UsageError
from games.spec import Game
from roles.role import Role


class EngineError(RuntimeError):
    """An engine failed, or broke the rule of one reply for each request."""


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
    ``on_episode`` sees every episode as soon as it ends, with those that it opened. Matches that matches
    open are played beside all others; one that waits for them takes no place in flight. A match draws from
    its own two seeds only, so the same requests give the same episodes whatever ``in_flight``.

    Raises EngineError, with engine and players named, if an engine raises or returns a wrong number
    of replies. A UsageError and an interruption pass as they are.
    """
    if in_flight < 1:
        raise UsageError(f"in_flight = {in_flight}: at least one match must be in flight.")
    hall = _Hall(cache(roles_of), make_game, on_episode)
    engines = cache(engine_of)
    waiting = enumerate(requests)
    flying: list[_Match] = []
    while True:
        newcomers = [hall.seat(place, request) for place, request in islice(waiting, max(in_flight - len(flying), 0))]
        flying += hall.advance(newcomers, [None] * len(newcomers))
        if flying:
            flying = hall.advance(flying, _replies([match.asked for match in flying], engines))
        elif not newcomers:
            return [hall.episodes[place] for place in range(len(hall.episodes))]


@dataclass(slots=True)
class _Match:
    """A match in flight and the request, or the matches that it opened, on which it waits."""

    place: int  # in the order of the requests
    game: Game
    course: Generator[ReplyRequest | tuple[MatchRequest, ...], Any, Episode]
    opener: _Match | None
    asked: ReplyRequest = field(init=False)
    opened: list[Episode | None] = field(init=False)  # None: still played


class _Hall:
    """Where matches are played: their games, used again and again, and their episodes by place."""

    def __init__(
        self,
        roles_of: Callable[[str], tuple[Role, ...]],
        make_game: Callable[[str], Game],
        on_episode: Callable[[Episode], None] | None,
    ) -> None:
        self.episodes: dict[int, Episode] = {}
        self._roles_of = roles_of
        self._make_game = make_game
        self._on_episode = on_episode
        self._idle: defaultdict[str, list[Game]] = defaultdict(list)

    def seat(self, place: int, request: MatchRequest, opener: _Match | None = None) -> _Match:
        """Return a match that has not begun."""
        idle = self._idle[request.game]
        game = idle.pop() if idle else self._make_game(request.game)
        return _Match(place, game, play_match(request, game, self._roles_of(request.game)), opener)

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
        if opener is not None:
            finished = episode.end is EndReason.FINISHED
            opener.opened[match.place] = episode._replace(outcome=outcome_of(match.game)) if finished else episode
            return () if None in opener.opened else self.advance([opener], [opener.opened])
        self.episodes[match.place] = episode
        if self._on_episode is not None:
            self._on_episode(episode)
        return ()


def _replies(asked: Sequence[ReplyRequest], engine_of: Callable[[str], Sampler]) -> list[Reply]:
    """Return the reply to each request, with one call of each engine."""
    engines = [engine_of(request.player) for request in asked]
    keys = list(map(id, engines))
    if len(set(keys)) == 1:
        return _sample(engines[0], asked)
    places: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    replies: dict[int, Reply] = {}
    for its_places in places.values():
        batch = [asked[place] for place in its_places]
        replies.update(zip(its_places, _sample(engines[its_places[0]], batch), strict=True))
    return [replies[place] for place in range(len(asked))]


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
