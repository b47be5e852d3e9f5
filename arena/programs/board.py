"""The board that offers turns to programs: a server's thread takes them, while one thread plays and computes.

A turn is handed out under a key of its own. Under that key completions are asked for and one of them is played, once;
a key that is used up, too late or handed out again no longer counts, so no turn is played twice and none is lost. It is
refused by status 410: clients ask again by themselves after 409, 429 and what is above 500, which would not help here.

A program that asks for a turn says who it is. A name belongs to the program that has its token, so no other program is
given its turns; and of one match a name gets one seat, so no program sees both hands of a game.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import chain
from math import inf
from typing import NamedTuple
from weakref import WeakKeyDictionary

from arena.errors import EngineError
from arena.programs.turns import SILENCE, Compute, ProgramTurn
from arena.records import Reply, ReplyRequest
from arena.serving.requests import ServedError
from games.common.errors import UsageError
from roles.chat_text import Message

POLL = 0.2  # seconds between two looks at what is too late
MOST_NAMES = 10_000  # of programs
MOST_VOID_KEYS = 10_000  # that are remembered with the reason why they count no more
STOPPED = "The run has stopped."


class Limits(NamedTuple):
    """How long programs may take, and how much they may ask."""

    seconds: float  # from the handing out of a turn until it is played, without the time that the model takes
    absence: float  # seconds that a turn waits for a program to take it; inf: until one comes
    completions: int  # of one turn
    several_seats: bool = False  # whether a program may take several seats of one match


class Asker(NamedTuple):
    """Who asks for a turn."""

    program: str  # its name; all that give none are one
    role: str = ""  # GAME/ROLE that it takes turns of; "": any

    def wants(self, turn: ProgramTurn) -> bool:
        """Return whether it takes turns of this role."""
        return self.role in ("", f"{turn.request.role.game}/{turn.request.role.name}")


Handed = tuple[str, ProgramTurn]  # a key, and its turn


class _Taken:
    """A turn in a program's hands."""

    def __init__(self, turn: ProgramTurn, program: str, deadline: float) -> None:
        self.turn, self.program, self.deadline = turn, program, deadline
        self.asked = 0  # completions, of which some may be under way or unwanted
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
        self._asking: deque[tuple[Asker, Future[Handed]]] = deque()
        self._tokens: dict[str, str] = {}  # by program
        # Who has taken turns of which seat, by the match's generator, with which it goes.
        self._seats: WeakKeyDictionary[random.Random, dict[int, set[str]]] = WeakKeyDictionary()
        self._taken: dict[str, _Taken] = {}  # by key
        self._void: dict[str, tuple[int, str]] = {}  # keys that count no more, oldest first: how they are refused
        self._asks: list[_Ask] = []
        self._played: dict[ProgramTurn, Reply] = {}
        self._closed = False

    def close(self) -> None:
        """Refuse any further request."""
        with self._changed:
            self._closed = True
            self._withdraw()
            for _, future in self._asking:
                if future.set_running_or_notify_cancel():
                    future.set_exception(ServedError(410, STOPPED))
            self._asking.clear()

    def token(self, program: str, given: str) -> str:
        """Return the token of a name: at its first use the one that is ``given`` with it, or a new one.

        Raises ServedError for a name that somebody with another token has.
        """
        with self._changed:
            if (token := self._tokens.get(program)) is None:
                if len(self._tokens) >= MOST_NAMES:
                    raise ServedError(403, f"{MOST_NAMES:,} programs have names already, which is the limit.")
                token = self._tokens[program] = given or secrets.token_urlsafe(24)
                return token
        if not secrets.compare_digest(given.encode(), token.encode()):
            raise ServedError(
                403,
                f"The name {program!r} belongs to another program. If it is yours, send the token from the first "
                "answer; otherwise choose another name.",
                "token",
            )
        return token

    def ask(self, asker: Asker) -> Future[Handed]:
        """Return a turn to come, with its key. Cancel it to wait no longer. Raises ServedError if the run has stopped.

        A program with a name that has a turn in hand gets that again, under a new key: it has been restarted.
        """
        future: Future[Handed] = Future()
        with self._changed:
            if self._closed:
                raise ServedError(410, STOPPED)
            self._asking.append((asker, future))
            self._hand_out()
        return future

    def give_back(self, key: str) -> None:
        """Offer a turn again that was handed to somebody who has gone."""
        with self._changed:
            if (taken := self._taken.pop(key, None)) is not None:
                self._set_void(key, (410, "The program that was given this turn has gone."))
                self._waiting.append((taken.turn, time.monotonic() + self.limits.absence))
                self._hand_out()

    def turn(self, key: str) -> ProgramTurn:
        """Return the turn of a key. Raises ServedError for a key that counts no more, or never did."""
        with self._changed:
            return self._of(key).turn

    def complete(self, key: str, chat: Sequence[Message], tokens: int | None, number: int) -> list[Future[Reply]]:
        """Ask for this many replies to a chat. Raises ServedError; a reply raises UsageError for a chat that is
        refused.

        They are the turn's once they are kept.
        """
        with self._changed:
            taken = self._of(key)
            if taken.asked + number > self.limits.completions:
                raise ServedError(
                    403, f"A turn may have at most {self.limits.completions} completions (programs.completions)."
                )
            taken.asked += number
            asked = [self._submit(taken, taken.turn.ask(chat, tokens)) for _ in range(number)]
            self._changed.notify_all()
            return asked

    def keep(self, key: str, replies: Sequence[Reply]) -> int:
        """Add replies to the turn's; return the place of the first one. Raises ServedError."""
        with self._changed:
            kept = self._of(key).turn.replies
            kept += replies
            return len(kept) - len(replies)

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
                    f"That is none of this turn's {len(replies)} completions, and only what was sampled for this turn "
                    "can be played. Ask for a completion under this key, and play it by its id.",
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
            self._hand_out()
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
                    asks = [ask for ask in self._asks if self._begin(ask)]
                    self._asks = []
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
                self._end_asking(ask.taken)
                if isinstance(reply, UsageError):
                    ask.taken.asked -= 1
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

    def _begin(self, ask: _Ask) -> bool:
        """Return whether somebody still waits for a reply."""
        if ask.reply.set_running_or_notify_cancel():
            return True
        self._end_asking(ask.taken)
        return False

    def _end_asking(self, taken: _Taken) -> None:
        taken.asking -= 1
        if not taken.asking:
            taken.deadline += time.monotonic() - taken.since

    def _hand_out(self) -> None:
        """Give turns to waiting programs, in the order of their waiting."""
        for _ in range(len(self._asking)):
            asker, future = self._asking.popleft()
            if future.cancelled():
                continue
            again = self._held(asker)
            place = None if again else self._place(asker)
            if again is None and place is None:
                self._asking.append((asker, future))
            elif future.set_running_or_notify_cancel():
                taken = self._take_again(again) if again else self._take(place or 0, asker)
                key = secrets.token_urlsafe(24)
                self._taken[key] = taken
                taken.turn.begin()
                future.set_result((key, taken.turn))
        self._changed.notify_all()

    def _held(self, asker: Asker) -> str | None:
        """Return the key of the turn that a program with a name has in hand."""
        if not asker.program:
            return None
        held = [k for k, taken in self._taken.items() if taken.program == asker.program and asker.wants(taken.turn)]
        return held[0] if held else None

    def _take_again(self, key: str) -> _Taken:
        taken = self._taken.pop(key)
        taken.asked = 0
        self._set_void(key, (410, f"The program {taken.program!r} has asked for its turn again, under a new key."))
        return taken

    def _place(self, asker: Asker) -> int | None:
        """Return where the turn stands that has waited longest of those that somebody may take."""
        for place, (turn, _) in enumerate(self._waiting):
            seats = self._seats.get(turn.request.rng, {})
            others = chain.from_iterable(who for seat, who in seats.items() if seat != turn.request.role.seat)
            if asker.wants(turn) and (self.limits.several_seats or asker.program not in others):
                return place
        return None

    def _take(self, place: int, asker: Asker) -> _Taken:
        turn, _ = self._waiting[place]
        del self._waiting[place]
        seats = self._seats.setdefault(turn.request.rng, {})
        seats.setdefault(turn.request.role.seat, set()).add(asker.program)
        return _Taken(turn, asker.program, time.monotonic() + self.limits.seconds)

    def _of(self, key: str) -> _Taken:
        """Return what is taken under a key. Raises ServedError."""
        if key in self._taken:
            return self._taken[key]
        if key in self._void:
            raise ServedError(*self._void[key])
        raise ServedError(
            401, "The API key belongs to no turn. POST /v1/seats/next hands out a turn: send the key it returns."
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
            if ask.reply.set_running_or_notify_cancel():
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
