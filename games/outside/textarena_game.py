"""TextArena's games as Games (Guertler et al., 2025, arXiv:2504.11442). The package is the extra ``textarena``.

    make_game("textarena:TicTacToe-v0")
    make_game("textarena:LiarsDice-v0(seats=3)")

What is repaired at the border: a match has a generator of its own, where the library seeds the process's; it begins in
a new environment without the library's wrappers, which keep what was said before a reset; a match ends after
``Facts.longest`` turns, or when all are out, where the library would go round forever; a reply that the game refuses,
or breaks on, is an illegal reply, for which the role's conduct holds, and the game's own fines and second tries never
apply; of a reply only the move reaches the others, or in a conversation its words as one quoted line. A position is
never changed: a move is made in a copy, so trying a reply leaves no trace.
"""

from __future__ import annotations

import functools
import importlib
import io
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, redirect_stdout
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Self

from games.common.errors import UsageError, unknown_name
from games.outside.facts import Facts, check_returns, with_named
from games.outside.names import read_name
from games.outside.private_random import PrivateRandom
from games.outside.textarena_replies import Replies, replies_of
from games.outside.textarena_state import copied, drained, guarded
from games.outside.textarena_words import MOST_CHARACTERS, GameMessage, own_words, read_reply, sentence, shown
from games.spec import Choices, FreeText, GameSpec, Utility

MOST_SEATS = 15
_NOTHING = Choices((), ())


class _Rules(NamedTuple):
    """What all matches of one name share."""

    make: Callable[[], Any]  # of an environment without wrappers
    facts: Facts
    spec: GameSpec
    in_brackets: bool  # whether the library puts brackets round moves; else words are spoken
    replies: Replies | None  # what they look like, where the game's own words do not show it


class _Position(NamedTuple):
    """A match at one point. Nothing here is changed."""

    env: Any
    generator: PrivateRandom
    lines: tuple[tuple[GameMessage, ...], ...]  # by seat
    turn: int
    over: bool


class TextArenaGame:
    """One match of a TextArena game. Raises UsageError for one that there is not, or that does not start."""

    def __init__(self, name: str) -> None:
        self._rules = _rules_of(str(read_name(name)))
        self.reset(0)

    @property
    def spec(self) -> GameSpec:
        """The facts about this game."""
        return self._rules.spec

    @property
    def in_brackets(self) -> bool:
        """Whether replies are moves in brackets; else they are words of a conversation."""
        return self._rules.in_brackets

    @property
    def others_hear(self) -> bool:
        """Whether any seat was shown another's words in full, as the library does it."""
        by_seat = enumerate(self._position.lines)
        return any(line.speaker not in (-1, seat) for seat, lines in by_seat for line in lines)

    def reset(self, seed: int) -> None:
        """Start a new match; ``seed`` fixes every chance event in it."""
        self._stand(_begun(self._rules, seed))

    def to_act(self) -> int | None:
        """Return the seat whose turn it is, or None when the match is over."""
        return None if self._position.over else int(self._position.env.state.current_player_id)

    def actions(self) -> Choices | FreeText:
        """Return the request for words."""
        if self._position.over:
            return _NOTHING
        form = "one move in square brackets" if self._rules.in_brackets else "what you say, with moves in brackets"
        return FreeText(MOST_CHARACTERS, f"{form}, as the rules tell", self._read)

    def observe(self, seat: int) -> str:
        """Return what the game has shown a seat, and what the seat and the others said."""
        return shown(self._position.lines[seat], seat)

    def information_state(self, seat: int) -> str:
        """Return the seat, whether it is its turn, and all that it was shown."""
        return f"{seat} {self.to_act() == seat} {self._position.lines[seat]}"

    def apply(self, action: str) -> None:
        """Say what was read. Raises ValueError for what the game refuses."""
        after = self._tried.get(action) if not self._position.over and self._read(action) == action else None
        if after is None:
            raise ValueError(f"{action[:80]!r} is not legal here: say {getattr(self.actions(), 'form', 'nothing')}.")
        self._stand(after)
        if self._stuck():
            self._stand(after._replace(over=True))
        if self._position.over:
            check_returns(self.spec.name, self._rules.facts, self.returns())

    def rewards(self) -> tuple[float, ...]:
        """Return what the match paid at its end; zeros before."""
        return self.returns()

    def returns(self) -> tuple[float, ...]:
        """Return each seat's reward; zeros before the end, and where the match was cut off."""
        paid = self._position.env.state.rewards if self._position.over else None
        return tuple([float((paid or {}).get(seat, 0.0)) for seat in range(self.spec.seats)])

    def copy(self) -> Self:
        """Return an independent match in the same position."""
        match = type(self).__new__(type(self))
        match.__dict__.update(self.__dict__)  # positions are never changed
        return match

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return ``random``, which says something legal at random, as far as it finds it in the game's own words."""
        return {"random": self._by_lot}

    def breaks(self, rng: random.Random, most: int) -> str:
        """Return what the library's code raises on one of ``most`` replies at random of the game's grammar, or nothing.

        Return nothing as well where no file describes the grammar: then such a reply may not be a move.
        """
        for reply in islice(self._drawn(rng), most) if self._rules.replies else ():
            try:
                _stepped(self._position, reply)
            except Exception as error:  # noqa: BLE001  # of the library's code, whatever it is
                return sentence(error)
        return ""

    def _drawn(self, rng: random.Random) -> Iterator[str]:
        """Yield what the seat whose turn it is might say, at random, legal or not."""
        seat = self.to_act()
        assert seat is not None, "the match is over"
        replies, seen = self._rules.replies, self.observe(seat)
        return replies.drawn(seen, rng) if replies else own_words(seen, rng)

    def _stuck(self) -> bool:
        """Return whether no reply is legal, where all that can be said is known."""
        seat, replies = self.to_act(), self._rules.replies
        if seat is None or replies is None or not replies.complete:
            return False
        read = self._read
        return all(read(reply) is None for reply in replies.every(self.observe(seat)))

    def _stand(self, position: _Position) -> None:
        self._position, self._tried = position, dict[str, _Position]()

    @property
    def _read(self) -> Callable[[str], str | None]:
        is_legal = partial(_is_legal, self._position, self._rules, self._tried)
        return partial(read_reply, in_brackets=self._rules.in_brackets, is_legal=is_legal)

    def _by_lot(self, rng: random.Random) -> str:
        read = self._read
        found = next((reply for reply in self._drawn(rng) if read(reply) is not None), None)
        if found is None:
            raise UsageError(f"{self.spec.name}: of many random replies, none was legal; let a language model play it.")
        return found


def textarena_names() -> dict[str, str]:
    """Return the first name of each of the library's entry points, by entry point."""
    first: dict[str, str] = {}
    for name, entry in _registry().items():
        first.setdefault(str(entry.entry_point), name)
    return first


def _registry() -> dict[str, Any]:
    try:
        from textarena.envs.registration import ENV_REGISTRY
    except ModuleNotFoundError as error:
        raise UsageError(
            f"TextArena's games need the package {error.name}: pip install 'llm-league[textarena]'. It brings the "
            "package chess, which is under the GPL-3."
        ) from None
    return dict(ENV_REGISTRY)


@functools.cache
def _rules_of(text: str) -> _Rules:
    name, registry = read_name(text), _registry()
    if name.game not in registry:
        raise unknown_name("game of TextArena", name.game, registry)
    facts, own = with_named(Facts(), name)
    seats = own.pop("seats", None)
    entry = registry[name.game]
    make = partial(_made, text, entry, {**entry.kwargs, **own})
    state = _first_state(text, make, seats)
    if state.num_players == 2 and "motive" not in name.parameters and type(state).__name__ == "TwoPlayerState":
        facts = facts._replace(motive=Utility.ZERO_SUM)  # one wins, or it is a draw
    spec = GameSpec(
        name=text,
        seats=state.num_players,
        num_actions=0,
        max_turns=facts.longest,
        min_return=float(facts.least),
        max_return=float(facts.most),
        utility=facts.motive,
        perfect_information=False,
        has_chance=True,
        free_text=True,
    )
    wrappers = [wrapper.__name__ for wrapper in entry.default_wrappers or ()]
    replies = replies_of(str(entry.entry_point))
    in_brackets = "ActionFormattingWrapper" in wrappers and not (replies and replies.words)
    return _Rules(make, facts, spec, in_brackets, replies)


def _made(name: str, entry: Any, parameters: dict[str, Any]) -> Any:
    try:
        module, _, kind = str(entry.entry_point).partition(":")
        with _silence():
            return getattr(importlib.import_module(module), kind)(**parameters)
    except Exception as error:  # of the library's code, whatever it is
        raise UsageError(f"{name} cannot be made: {sentence(error)}") from error


def _first_state(name: str, make: Callable[[], Any], seats: Any) -> Any:
    """Return the state of a first match, with as many seats as asked for, or as few as the game takes."""
    refusals = []
    for count in (2, 1, *range(3, MOST_SEATS + 1)) if seats is None else (seats,):
        env = make()
        try:
            with PrivateRandom(0), _silence():
                env.reset(num_players=count, seed=0)
        except AssertionError as error:  # how the library refuses a number of players
            refusals.append(sentence(error))
        except Exception as error:  # of the library's code, whatever it is
            raise UsageError(f"{name} does not start: {sentence(error)}") from error
        else:
            return env.state
    raise UsageError(f"{name} does not start with {seats or f'1 to {MOST_SEATS}'} seats: {refusals[0]}")


def _begun(rules: _Rules, seed: int) -> _Position:
    """Return a match at its start."""
    generator, seats = PrivateRandom(seed), rules.spec.seats
    with generator, _silence():
        env = rules.make()
        env.reset(num_players=seats, seed=seed % 2**31)
    env.state.__class__ = guarded(type(env.state))
    if rules.replies:
        env.state.shared = rules.replies.shared
    return _Position(env, generator, drained(env, ((),) * seats), 0, bool(env.state.done))


def _is_legal(position: _Position, rules: _Rules, tried: dict[str, _Position], action: str) -> bool:
    """Return whether the game takes an action; where that leads is kept in ``tried``."""
    if action not in tried:
        try:
            env, generator, done = _stepped(position, action)
        except Exception:  # noqa: BLE001  # a reply that the library's code breaks on is one that it cannot read
            return False
        if env.state.refused:
            return False
        turn = position.turn + 1
        over = done or turn >= rules.facts.longest
        tried[action] = _Position(env, generator, drained(env, position.lines), turn, over)
    return True


def _stepped(position: _Position, action: str) -> tuple[Any, PrivateRandom, bool]:
    """Return a copy of an environment after an action, its generator, and whether the match is over."""
    env, generator = copied(position.env), position.generator.copy()
    env.state.refused = False
    with generator, _silence():
        done, _ = env.step(action)
    return env, generator, bool(done or env.state.done)


def _silence() -> AbstractContextManager[object]:
    """Return a context without standard output: some games print to it, which is where results go."""
    return redirect_stdout(io.StringIO())
