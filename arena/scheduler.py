"""Plays many matches side by side: one batch for each engine a round, or single requests for streaming engines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, Self

from arena.drawn_matches import DrawnMatch, Lineups, decide, refuse_exploring, undecided
from arena.errors import EngineError, LostEngine, ServerError, one_for_each
from arena.probes.asking import EngineOf, ProbeLog, ask
from arena.records import EndReason, Episode, MatchRequest, Reply, ReplyRequest, Sampler, Streaming
from arena.referee import is_plain, play_match
from arena.reply_queue import FailedRequest, ReplyQueue, pins_weights, streams
from arena.submatches import submatch_outcome
from arena.tool_calls import ToolRequest
from games.common.errors import UsageError
from games.spec import Game
from roles.role import Role

Engine = Sampler | Streaming
IN_FLIGHT = 1024  # default number of matches played side by side
MAX_FAILURES = 3  # of one match, before its error is raised
REFUSED = frozenset({400, 401, 403, 404, 405, 410, 413, 422})  # by a server, which would refuse it again


def play(
    requests: Iterable[MatchRequest],
    *,
    roles_of: Callable[[str], tuple[Role, ...]],
    engine_of: Callable[[str], Engine],
    make_game: Callable[[str], Game],
    in_flight: int = IN_FLIGHT,
    on_episode: Callable[[Episode], None] | None = None,
    asks: Callable[[MatchRequest], bool] | None = None,
) -> list[Episode]:
    """Play all matches and return their episodes in the order of the requests.

    ``roles_of`` takes a game's name, ``engine_of`` a player's id; each is called once for a name. A ``Streaming``
    engine gets each request by itself, and the match continues as soon as its reply is complete; any other engine is
    called once a round. ``on_episode`` gets each episode, with its submatches, as soon as it ends. Submatches are
    played beside all other matches; a match that waits for its submatches does not count as in flight, nor does one
    that waits for a tool, as long as there are no more such matches than ``in_flight``. A match draws
    from its own two seeds only, so the same requests give the same episodes for every ``in_flight`` and every order of
    replies. After a match its roles are asked their probes, if ``asks`` says so or is None, which changes no play.

    A match whose request to a ``Streaming`` engine fails begins again, with its own seeds (``Episode.failed``). Raises
    EngineError, with engine, players and roles named, if it fails ``MAX_FAILURES`` times, or if any other engine raises
    or returns a wrong number of replies; a UsageError and a KeyboardInterrupt as they are. Then pending requests are
    cancelled.
    """
    episodes: dict[int, Episode] = {}
    played = rounds(
        requests, roles_of=roles_of, engine_of=engine_of, make_game=make_game, in_flight=in_flight, asks=asks
    )
    for ended in played:
        episodes |= ended
        if on_episode is not None:
            for episode in ended.values():
                on_episode(episode)
    return [episodes[index] for index in range(len(episodes))]


def rounds(
    requests: Iterable[MatchRequest],
    *,
    roles_of: Callable[[str], tuple[Role, ...]],
    engine_of: Callable[[str], Engine],
    make_game: Callable[[str], Game],
    in_flight: int,
    asks: Callable[[MatchRequest], bool] | None = None,
    patience: float | None = None,
) -> Iterator[dict[int, Episode]]:
    """Play as ``play`` does, and yield after each round the matches that ended in it, by place among the requests.

    An iterator of requests may be exhausted for a time: it is asked again in each round, until no match is under way.
    A round waits for ``patience`` seconds at most where nothing can continue (None: until something can).
    """
    if in_flight < 1:
        raise UsageError(f"in_flight = {in_flight}: at least one match must be in flight.")
    engines = cache(engine_of)
    waiting = enumerate(requests)
    active: list[AnyMatch] = []
    with closing(ReplyQueue[_Match](engines)) as queue:
        runner = _MatchRunner(cache(roles_of), make_game, queue, engines, asks)
        while True:
            room = min(in_flight - len(active) - queue.of_engines, 2 * in_flight - len(active) - len(queue))
            new = list(islice(waiting, max(room, 0)))
            started = runner.begin(new)
            active += runner.advance(started, [None] * len(started))
            if active:
                active = runner.advance(*_dispatch(active, engines, queue))
                active += runner.advance(*queue.replies(wait=False))
            elif queue:
                active = runner.advance(*queue.replies(wait=True, patience=patience))
            elif not new:
                return
            if failed := queue.take_failed():
                active = runner.begin_again(failed, active)
            yield runner.take_ended()


@dataclass(slots=True)
class _Match:
    """A match in flight and what it waits for: the reply to a request, or its submatches."""

    index: int  # in the order of the requests, or of the parent's submatches
    request: MatchRequest
    players: tuple[str, ...]  # [seats]
    game: Game
    coroutine: Generator[ReplyRequest | ToolRequest | tuple[MatchRequest, ...], Any, Episode]
    parent: _Match | None
    reply_request: ReplyRequest = field(init=False)
    submatches: list[Episode | None] = field(init=False)  # None: not finished
    probes: ProbeLog | None = None  # None: no role is asked anything outside its turns
    failed: tuple[str, ...] = ()  # roles whose requests failed before it began again
    pinned: dict[str, str] | None = None  # ids of the weights of this match and its submatches, by player


AnyMatch = _Match | DrawnMatch


class _Seating(NamedTuple):
    """The roles of a game's seats, and what no match has to ask them again."""

    roles: tuple[Role, ...]  # [seats]
    plain: bool  # none has tools or slots
    probed: bool  # one is asked something outside its turns

    @classmethod
    def of(cls, roles: tuple[Role, ...]) -> Self:
        """Look once at the roles of a game."""
        return cls(roles, is_plain(roles), any(role.probes for role in roles))


class _MatchRunner:
    """Runs the matches' coroutines; reuses their games and collects their episodes by index."""

    def __init__(
        self,
        roles_of: Callable[[str], tuple[Role, ...]],
        make_game: Callable[[str], Game],
        queue: ReplyQueue[_Match],
        engine_of: EngineOf,
        asks: Callable[[MatchRequest], bool] | None,
    ) -> None:
        self._ended: dict[int, Episode] = {}
        self._seating = cache(lambda game: _Seating.of(roles_of(game)))
        self._make_game = make_game
        self._queue = queue
        self._engine_of, self._asks = engine_of, asks
        self._idle: defaultdict[str, list[Game]] = defaultdict(list)
        self._lineups = Lineups(roles_of, make_game, engine_of)

    def begin(self, requests: Iterable[tuple[int, MatchRequest]]) -> list[AnyMatch]:
        """Start matches by index; those that need nobody else are played at once, and the others are returned."""
        self._lineups.forget_old()
        started: list[AnyMatch] = []
        for index, request in requests:
            lineup = self._lineups.of(request)
            if lineup is None:
                refuse_exploring(request)
                started.append(self.start(index, request))
            elif lineup.alone:
                self._keep(index, lineup.play(request))
            else:
                started.append(DrawnMatch(index, request, lineup))
        return started

    def take_ended(self) -> dict[int, Episode]:
        """Return the matches that have ended since the last call."""
        ended, self._ended = self._ended, {}
        return ended

    def start(self, index: int, request: MatchRequest, parent: _Match | None = None) -> _Match:
        """Return a match whose coroutine has not been advanced."""
        idle = self._idle[request.game]
        game = idle.pop() if idle else self._make_game(request.game)
        seating = self._seating(request.game)
        coroutine = play_match(request, game, seating.roles, plain=seating.plain)
        match = _Match(index, request, request.players, game, coroutine, parent)
        if seating.probed and (self._asks is None or self._asks(request)):
            match.probes = ProbeLog(seating.roles, request.players)
        return match

    def advance(self, matches: Sequence[AnyMatch], replies: Sequence[Any]) -> list[AnyMatch]:
        """Send each match its reply or submatches (None starts it); return the matches that then request a reply."""
        active: list[AnyMatch] = []
        finished: list[tuple[int, _Match, Episode]] = []  # with how many matches are active before it
        for match, reply in zip(matches, replies, strict=True):
            if isinstance(match, DrawnMatch):
                if reply is None or (drawn := match.move()) is None:
                    active.append(match)
                else:
                    self._keep(match.index, drawn)
                continue
            try:
                request = match.coroutine.send(reply)
            except StopIteration as stop:
                finished.append((len(active), match, stop.value))
                continue
            if isinstance(request, ReplyRequest):
                if match.probes is not None:
                    match.probes.see(request)
                match.reply_request = request
                active.append(match)
            elif isinstance(request, ToolRequest):
                self._queue.call(match, request)
            else:
                active += self._open(match, request)
        before, waited = 0, self._with_beliefs([(match, episode) for _, match, episode in finished])
        for (place, match, _), episode in zip(finished, waited, strict=True):
            if resumed := self._finish(match, episode):
                active[place + before : place + before] = resumed
                before += len(resumed)
        return active

    def begin_again(self, failed: Sequence[FailedRequest[_Match]], active: Sequence[AnyMatch]) -> list[AnyMatch]:
        """Begin matches again whose requests failed, with their own seeds; return the matches that request a reply.

        Raises the EngineError of a match that has failed ``MAX_FAILURES`` times, or that fails whenever it is played.
        """
        roots: dict[int, _Match] = {}
        for match, error in failed:
            root, role = _root(match), f"{match.request.game}/{match.reply_request.role.name}"
            if id(root) not in roots:  # what failed with it was asked in vain
                roots[id(root)] = root
                root.failed += (role,)
                _check_failures(root, role, error)
        self._queue.drop(lambda match: id(_root(match)) in roots)
        for root in roots.values():
            if root.pinned:
                self._queue.unpin(root.pinned)
        new = [self.start(root.index, root.request) for root in roots.values()]
        for match, root in zip(new, roots.values(), strict=True):
            match.failed = root.failed
        kept = [match for match in active if id(_root(match)) not in roots]
        return kept + self.advance(new, [None] * len(new))

    def _with_beliefs(self, finished: Sequence[tuple[_Match, Episode]]) -> list[Episode]:
        """Return finished matches with the answers to their probes."""
        logs, places = [], []
        for place, (match, episode) in enumerate(finished):
            if match.probes is not None:
                match.probes.end(match.game, len(episode.turns))
                logs.append((match.probes, _root(match).pinned))
                places.append(place)
        episodes = [episode for _, episode in finished]
        for place, beliefs in zip(places, ask(logs, self._engine_of) if logs else (), strict=True):
            episodes[place] = episodes[place]._replace(beliefs=beliefs)
        return episodes

    def _open(self, match: _Match, requests: Sequence[MatchRequest]) -> list[AnyMatch]:
        """Start a match's submatches; return the matches that then request a reply."""
        match.submatches = [None] * len(requests)
        children = [self.start(index, request, match) for index, request in enumerate(requests)]
        return self.advance(children, [None] * len(children))

    def _finish(self, match: _Match, episode: Episode) -> Sequence[AnyMatch]:
        """Record a finished match; return the matches that request a reply because their submatches are finished."""
        self._idle[episode.request.game].append(match.game)
        parent = match.parent
        if match.pinned:
            self._queue.unpin(match.pinned)
        if episode.request.parent is not None and episode.end is EndReason.FINISHED:
            episode = episode._replace(outcome=submatch_outcome(match.game, bool(match.request.given)))
        if match.failed:
            episode = episode._replace(failed=match.failed)
        if parent is not None:
            parent.submatches[match.index] = episode
            return () if None in parent.submatches else self.advance([parent], [parent.submatches])
        self._keep(match.index, episode)
        return ()

    def _keep(self, index: int, episode: Episode) -> None:
        self._ended[index] = episode


def _dispatch(
    active: Sequence[AnyMatch], engine_of: Callable[[str], Engine], queue: ReplyQueue[_Match]
) -> tuple[Sequence[AnyMatch], Sequence[Any]]:
    """Send all requests to their engines; return the matches with a reply now, and the replies.

    Requests for streaming engines go to the queue; any other engine is called once.
    """
    matches_of: dict[int, tuple[Any, list[AnyMatch]]] = {}  # with their engine, by its id
    for match in active:
        engine: Any = match.node.engine if isinstance(match, DrawnMatch) else engine_of(match.reply_request.player)
        group = matches_of.get(id(engine))
        if group is None:
            matches_of[id(engine)] = engine, [match]
        else:
            group[1].append(match)
    replied: list[AnyMatch] = []
    replies: list[Any] = []
    for engine, matches in matches_of.values():
        if streams(engine):
            for match in matches:
                assert isinstance(match, _Match), "no engine both streams and draws"
                request = _with_pinned_weights(match, queue) if pins_weights(engine) else match.reply_request
                queue.submit(match, engine, request, match.reply_request.player)
        else:
            replied += matches
            replies += _replies(engine, matches)
    return replied, replies


def _replies(engine: Any, matches: Sequence[AnyMatch]) -> Sequence[Any]:
    """Return an engine's replies; True for a match that draws its own from the choice that its node now has."""
    waiting = [match for match in matches if isinstance(match, _Match)]
    if len(waiting) < len(matches) and (asked := undecided(matches)):
        decide(engine, asked)
    sampled = iter(_sample(engine, [match.reply_request for match in waiting]) if waiting else ())
    if len(waiting) == len(matches):
        return list(sampled)
    return [next(sampled) if isinstance(match, _Match) else True for match in matches]


def _with_pinned_weights(match: _Match, queue: ReplyQueue[_Match]) -> ReplyRequest:
    """Return a match's request for the weights that its players had when the match, or its root, began."""
    root = _root(match)
    root.pinned = pinned = {} if root.pinned is None else root.pinned
    if match.reply_request.player not in pinned:
        queue.pin((*root.players, *match.players), pinned)
    return match.reply_request._replace(player=pinned[match.reply_request.player])


def _check_failures(match: _Match, role: str, error: EngineError) -> None:
    """Raise the error of a match that is not started again: it failed too often, or its engine is gone or refuses
    it.
    """
    cause = error.__cause__
    refused = isinstance(cause, ServerError) and cause.status in REFUSED
    if isinstance(cause, LostEngine) or refused:
        raise error
    if len(match.failed) < MAX_FAILURES:
        return
    counts = ", ".join(f"{number} for {name}" for name, number in Counter(match.failed).items())
    raise EngineError(
        f"{error} Match {match.request.index} was started {MAX_FAILURES} times with the same seeds and failed each "
        f"time ({counts}), the last time for {role}."
    ) from cause


def _root(match: Any) -> Any:
    """Return the match that no match opened, of which this is a part."""
    while match.parent is not None:
        match = match.parent
    return match


def _sample(engine: Sampler, requests: Sequence[ReplyRequest]) -> list[Reply]:
    """Call an engine. Raises EngineError if it fails or does not return one reply for each request."""
    return one_for_each(engine, engine.sample, requests, asked="requests for", given="replies to")
