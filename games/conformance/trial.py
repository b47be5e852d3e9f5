"""Random matches that know where they stand, so that a fault can say it; and what a check is."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from games.abilities import TakesTasks
from games.registry import make_game
from games.spec import (
    Attempt,
    Choices,
    Game,
    HasScripts,
    IsSubmatch,
    OpensSubmatches,
    Submatch,
    tell_of_submatches,
    whole_outcome,
)

Make = Callable[[], Game]
Position = tuple[object, ...]  # all that is to be seen of a match, in the order of ``_PARTS``
MOST_TURNS = 20_000  # of a match here; a longer one counts as endless whatever ``max_turns`` says
FEW = 20  # matches of checks that look at every position several times
TOLERANCE = 1e-6  # of sums of returns
_HERE = Path(__file__).parent
_SHOWN_ACTIONS = 6  # the last ones, in a fault


class Fault(Exception):
    """One promise that is not kept, in a sentence."""


class Unchecked(Exception):
    """A check that does not apply to the game; the reason is its text."""


class Promise(NamedTuple):
    """One promise of a game."""

    name: str
    promise: str  # a sentence without its full stop
    run: Callable[[Trial], str | None]  # returns a remark, or raises Fault


class CheckResult(NamedTuple):
    """What came of one check."""

    name: str
    promise: str
    state: Literal["pass", "fail", "skip"]
    sentence: str = ""  # what is wrong and where; why it was not checked; or a remark


class Trial:
    """Random matches of a game, which know where they stand, so that a fault can say it."""

    def __init__(self, make: Make, seeds: Sequence[int]) -> None:
        self.make, self.seeds, self.few = make, seeds, seeds[:FEW]
        self._seed: int | None = None
        self._played: list[str] = []

    def positions(self, game: Game, seed: int, follow: Sequence[str] | None = None) -> Iterator[Game]:
        """Reset the game and yield it at each turn, and then at the end; the actions are drawn, or those to follow."""
        self._seed, self._played, rng = seed, [], random.Random(seed)
        game.reset(seed)
        while game.to_act() is not None and len(self._played) <= min(game.spec.max_turns, MOST_TURNS):
            yield game
            turn = len(self._played)
            self.apply(game, random_action(game, rng) if follow is None else follow[turn])
        yield game

    def apply(self, game: Game, action: str) -> None:
        """Play an action, and at random the submatches that it opens."""
        self._played.append(action)
        game.apply(action)
        self.answer(game)

    def answer(self, game: Game) -> None:
        """Play at random the submatches that the last action opened."""
        if game.spec.submatch_games and isinstance(game, OpensSubmatches) and (opened := game.submatches()):
            tell_of_submatches(game, [_attempt(submatch, self._seed or 0) for submatch in opened])

    @property
    def where(self) -> str:
        """The seed and the last actions, as the beginning of a sentence."""
        if self._seed is None:
            return ""
        shown = [repr(action if len(action) <= 60 else f"{action[:57]}…") for action in self._played[-_SHOWN_ACTIONS:]]
        before = f"{len(self._played) - len(shown)} actions and " if len(self._played) > len(shown) else ""
        after = f"after {before}{', '.join(shown)}" if shown else "at the start"
        return f"Seed {self._seed}, {after}: "

    @property
    def played(self) -> list[str]:
        """The actions of the match so far."""
        return [*self._played]

    def expect(self, kept: bool, fault: str) -> None:
        """Raise Fault, with where the match stands, for a promise that is not kept."""
        if not kept:
            raise Fault(f"{self.where}{fault}")

    def forget(self) -> None:
        """Stand at no position."""
        self._seed, self._played = None, []


def raised(error: Exception) -> str:
    """Return what a game raises, and the line of its own code that was reached last."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent != _HERE]
    own = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name})" if own else ""
    return f"it raises {type(error).__name__}: {' '.join(str(error).split())[:160]}{place}"


def random_action(game: Game, rng: random.Random) -> str:
    """Return an action at random: one of the list, or of the game's script ``random``; where it has neither, words."""
    actions = game.actions()
    if isinstance(actions, Choices):
        return rng.choice(actions.labels)
    if isinstance(game, HasScripts) and "random" in game.scripts():
        said = game.scripts()["random"](rng)
        return actions.read(said) or said
    return actions.read(f"I say {rng.randrange(10)}.") or str(rng.randrange(10))


def _attempt(submatch: Submatch, seed: int) -> Attempt:
    """Play a submatch at random; return how it ended."""
    said: list[str] = []
    game, rng = make_game(submatch.game), random.Random(seed)
    game.reset(seed)
    if submatch.given:
        pass  # a whole match, on its parent's deal
    elif isinstance(game, TakesTasks):
        game.start_task(submatch.task)
    elif isinstance(game, IsSubmatch):
        game.start_submatch(submatch.task)
    while game.to_act() is not None:
        said.append(random_action(game, rng))
        game.apply(said[-1])
    if submatch.given:
        return Attempt(whole_outcome(game), " ".join(said))
    return Attempt(game.outcome() if isinstance(game, IsSubmatch) else f"{game.returns()[0]:g}", " ".join(said))


def position_of(game: Game) -> Position:
    """Return all that is to be seen of a match now."""
    seats, actions = range(game.spec.seats), game.actions()
    shown = actions if isinstance(actions, Choices) else actions.form
    seen = [(game.observe(seat), game.information_state(seat)) for seat in seats]
    return game.to_act(), shown, seen, game.rewards(), game.returns()


_PARTS = ("to_act()", "actions()", "observe() or information_state()", "rewards()", "returns()")


def difference(a: Position, b: Position) -> str:
    """Return what differs between two positions, with both values."""
    part = next((index for index in range(len(a)) if a[index] != b[index]), 0)
    return f"{_PARTS[part]}: {short(a[part])} and {short(b[part])}"


def short(value: object) -> str:
    """Return a value in one line of a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:117]}…"
