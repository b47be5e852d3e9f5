"""The board on which turns are offered to programs: threads of a server take them, and one thread plays and computes.

A turn is handed out under a key of its own. Under that key completions are asked for and one of them is played, once;
a key that is used up, too late or handed out anew counts no more, so no turn is played twice and none is lost. It is
refused by status 410: clients ask again by themselves after 409, 429 and what is above 500, which would not help here.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from math import inf
from typing import NamedTuple

from arena.errors import EngineError
from arena.programs.turns import SILENCE, Compute, ProgramTurn
from arena.records import Reply, ReplyRequest
from arena.serving.requests import ServedError
from games.common.errors import UsageError
from roles.chat_text import Message

POLL = 0.2  # seconds between two looks at whether somebody who waits is still there
MOST_VOID_KEYS = 10_000  # that are remembered with the reason why they count no more
STOPPED = "The run has stopped."


class Limits(NamedTuple):
    """How long programs may take, and how much they may ask."""

    seconds: float  # from the handing out of a turn until it is played, without the time that the model takes
    absence: float  # seconds that a turn waits for a program to take it; inf: until one comes
    completions: int  # of one turn


class _Taken:
    """A turn in a program's hands."""

    def __init__(self, turn: ProgramTurn, program: str, deadline: float) -> None:
        self.turn, self.program, self.deadline = turn, program, deadline
        self.asking, self.since = 0, 0.0  # requests under way, and since when: meanwhile its time does not run


class _Ask(NamedTuple):
    """A completion that is waited for."""

    taken: _Taken
    request: ReplyRequest
    reply: Future[Reply]


class TurnBoard:
    """Turns that are offered, taken and played. Safe for threads; ``play_all`` is for one of them alone."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.counts: Counter[str] = Counter()  # what happened since somebody last emptied it
        self._changed = threading.Condition()
        self._waiting: deque[tuple[ProgramTurn, float]] = deque()  # with the time at which it is forfeited
        self._taken: dict[str, _Taken] = {}  # by key
        self._void: dict[str, tuple[int, str]] = {}  # keys that count no more, oldest first: how they are refused
        self._asks: list[_Ask] = []
        self._played: dict[ProgramTurn, Reply] = {}
        self._closed = False

    def close(self) -> None:
        """Refuse whoever still asks."""
        with self._changed:
            self._closed = True
            self._withdraw()

    def take(self, program: str, seconds: float, gone: Callable[[], bool]) -> tuple[str, ProgramTurn] | None:
        """Hand out a turn and its key; None if there is none within so many seconds, or the asker is ``gone``.

        A program with a name that has a turn in hand gets that again, under a new key: it has been restarted.
        Raises ServedError when the run has stopped.
        """
        until = time.monotonic() + seconds
        with self._changed:
            while True:
                if self._closed:
                    raise ServedError(410, STOPPED)
                if gone():
                    return None
                if (taken := self._again(program) or self._first(program)) is not None:
                    key = secrets.token_urlsafe(24)
                    self._taken[key] = taken
                    taken.turn.begin()
                    self._changed.notify_all()
                    return key, taken.turn
                left = until - time.monotonic()
                if left <= 0.0:
                    return None
                self._changed.wait(min(left, POLL))

    def turn(self, key: str) -> ProgramTurn:
        """Return the turn of a key. Raises ServedError for a key that counts no more, or never did."""
        with self._changed:
            return self._of(key).turn

    def complete(self, key: str, chat: Sequence[Message], tokens: int | None, number: int) -> list[tuple[int, Reply]]:
        """Return so many replies to a chat, each with its place among the turn's. Raises ServedError."""
        with self._changed:
            taken = self._of(key)
            turn = taken.turn
            if len(turn.replies) + taken.asking + number > self.limits.completions:
                raise ServedError(
                    403, f"A turn has {self.limits.completions} completions at most (programs.completions)."
                )
            asked = [self._submit(taken, turn.ask(chat, tokens)) for _ in range(number)]
            self._changed.notify_all()
        try:
            replies = [reply.result() for reply in asked]
        except UsageError as error:
            raise ServedError(400, str(error), "messages") from None
        with self._changed:
            self._of(key)
            turn.replies += replies
            return list(enumerate(replies, len(turn.replies) - number))

    def play(self, key: str, place: int | None = None, content: str | None = None) -> Reply:
        """Play the reply of a place among the turn's, or the latest that says ``content``; return it.

        Raises ServedError for what was never sampled for this turn; the program may then play what was.
        """
        with self._changed:
            taken = self._of(key)
            replies = taken.turn.replies
            if place is None:
                said = [at for at, reply in enumerate(replies) if reply.text == content]
                place = said[-1] if said else None
            if place is None or not 0 <= place < len(replies):
                self.counts["refused"] += 1
                raise ServedError(
                    422,
                    f"None of this turn's {len(replies)} completions is that one, and only what was sampled for it can "
                    "be played. Ask for a completion under this key, and play it by its id.",
                )
            self._end(key, replies[place], (410, "This turn has been played already."))
            self.counts["played"] += 1
            return replies[place]

    def play_all(self, turns: Sequence[ProgramTurn], compute: Compute) -> list[Reply]:
        """Offer turns, compute what programs ask, and return what they play; of a forfeited turn, SILENCE.

        Raises EngineError where another thread closes the board meanwhile.
        """
        with self._changed:
            self._played = {}
            self._waiting.extend((turn, time.monotonic() + self.limits.absence) for turn in turns)
            self._changed.notify_all()
        try:
            while True:
                with self._changed:
                    if self._closed:
                        raise EngineError(STOPPED)
                    soonest = self._forfeit_late()
                    if len(self._played) == len(turns):
                        return [self._played[turn] for turn in turns]
                    if not self._asks:
                        self._changed.wait(min(max(soonest - time.monotonic(), 0.0), POLL))
                    asks, self._asks = self._asks, []
                self._answer(asks, compute)
        finally:
            with self._changed:
                self._withdraw()

    def _answer(self, asks: Sequence[_Ask], compute: Compute) -> None:
        """Compute replies side by side; if one request is refused, each by itself."""
        if not asks:
            return
        try:
            try:
                replies: list[Reply | UsageError] = [*compute([ask.request for ask in asks])]
            except UsageError:
                replies = [_alone(ask.request, compute) for ask in asks]
        except BaseException as error:  # the run fails by it; who waits is not left waiting
            for ask in asks:
                ask.reply.set_exception(ServedError(500, f"{STOPPED} {error}"))
            raise
        with self._changed:
            for ask, reply in zip(asks, replies, strict=True):
                ask.taken.asking -= 1
                if not ask.taken.asking:
                    ask.taken.deadline += time.monotonic() - ask.taken.since
                if isinstance(reply, UsageError):
                    ask.reply.set_exception(reply)
                else:
                    ask.reply.set_result(reply)

    def _submit(self, taken: _Taken, asked: Reply | ReplyRequest) -> Future[Reply]:
        reply: Future[Reply] = Future()
        if isinstance(asked, Reply):
            reply.set_result(asked)
        else:
            taken.since = taken.since if taken.asking else time.monotonic()
            taken.asking += 1
            self._asks.append(_Ask(taken, asked, reply))
        return reply

    def _again(self, program: str) -> _Taken | None:
        """Take back the turn that a program with this name has in hand."""
        key = next((key for key, taken in self._taken.items() if program and taken.program == program), None)
        if key is None:
            return None
        self._set_void(key, (410, f"The program {program!r} has asked for its turn again, under a new key."))
        return self._taken.pop(key)

    def _first(self, program: str) -> _Taken | None:
        """Take the turn that has waited longest."""
        if not self._waiting:
            return None
        turn, _ = self._waiting.popleft()
        return _Taken(turn, program, time.monotonic() + self.limits.seconds)

    def _of(self, key: str) -> _Taken:
        """Return what is taken under a key. Raises ServedError."""
        if key in self._taken:
            return self._taken[key]
        if key in self._void:
            raise ServedError(*self._void[key])
        raise ServedError(
            401, "The API key is that of no turn. GET /v1/seats/next hands one out: send its key as the API key."
        )

    def _forfeit_late(self) -> float:
        """End what is too late; return the time at which the next turn will be."""
        now = time.monotonic()
        while self._waiting and self._waiting[0][1] <= now:
            turn, _ = self._waiting.popleft()
            self._played[turn] = SILENCE
            self.counts["forfeited"] += 1
        for key, taken in [*self._taken.items()]:
            if taken.deadline <= now and not taken.asking:
                late = f"This turn's {self.limits.seconds:g} seconds are over (programs.seconds): it is forfeited."
                self._end(key, SILENCE, (410, late))
                self.counts["forfeited"] += 1
        waiting = self._waiting[0][1] if self._waiting else inf
        return min([waiting, *(taken.deadline for taken in self._taken.values() if not taken.asking)])

    def _end(self, key: str, reply: Reply, why: tuple[int, str]) -> None:
        self._played[self._taken.pop(key).turn] = reply
        self._set_void(key, why)
        self._changed.notify_all()

    def _set_void(self, key: str, why: tuple[int, str]) -> None:
        self._void[key] = why
        while len(self._void) > MOST_VOID_KEYS:
            del self._void[next(iter(self._void))]

    def _withdraw(self) -> None:
        """Take back all that is offered or taken: every turn was played, or the run stops here."""
        self._waiting.clear()
        for key in [*self._taken]:
            del self._taken[key]
            self._set_void(key, (410, STOPPED))
        for ask in self._asks:
            ask.reply.set_exception(ServedError(410, STOPPED))
        self._asks = []
        self._changed.notify_all()


def _alone(request: ReplyRequest, compute: Compute) -> Reply | UsageError:
    """Return the reply to a request, or why it is refused."""
    try:
        [reply] = compute([request])
    except UsageError as error:
        return error
    return reply
