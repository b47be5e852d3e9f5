"""What a game is: its facts as data (GameSpec) and the moves of one match (Game)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, Self, runtime_checkable


class Utility(StrEnum):
    """How the seats' returns relate (OpenSpiel's ``GameType.Utility``)."""

    ZERO_SUM = "zero_sum"
    CONSTANT_SUM = "constant_sum"
    GENERAL_SUM = "general_sum"
    IDENTICAL = "identical"


@dataclass(frozen=True, slots=True)
class GameSpec:
    """Facts about a game that hold for every match of it.

    Returns are in the game's own units (chips, points). ``max_turns`` counts decisions of all
    seats together; chance moves are not turns.
    """

    name: str  # as the registry takes it: "kuhn_poker" or "kuhn_poker(players=3)"
    seats: int
    num_actions: int  # distinct action ids over the whole game
    max_turns: int
    min_return: float
    max_return: float
    utility: Utility
    perfect_information: bool
    has_chance: bool
    optimum: float | None = None  # best joint return per seat of a cooperative game, where known
    opens: tuple[str, ...] = ()  # the games of the matches that its matches open; its class is an Opener


@runtime_checkable
class Game(Protocol):
    """One match in progress. The referee is the only caller of ``apply``.

    Chance is drawn from a generator of the game's own, seeded by ``reset``: equal seeds and equal
    actions give equal matches, whatever else runs in the process. Simultaneous moves are asked for
    one seat after another, and no seat observes what the others chose in the same round.
    """

    @property
    def spec(self) -> GameSpec:
        """The facts about this game."""
        ...

    def reset(self, seed: int) -> None:
        """Begin a new match; ``seed`` fixes everything that chance will decide."""
        ...

    def to_act(self) -> int | None:
        """Return the seat whose turn it is, or None when the match is over."""
        ...

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions of the seat to act as distinct strings; empty when over."""
        ...

    def legal_ids(self) -> tuple[int, ...]:
        """Return the ids, in ``range(spec.num_actions)``, of ``legal_actions()``, in that order."""
        ...

    def observe(self, seat: int) -> str:
        """Return, in words, all that ``seat`` knows: a seat with perfect recall needs no more."""
        ...

    def information_state(self, seat: int) -> str:
        """Return a key, equal for exactly those positions that ``seat`` cannot tell apart."""
        ...

    def apply(self, action: str) -> None:
        """Play one of ``legal_actions()``. Raises ValueError for any other string."""
        ...

    def rewards(self) -> tuple[float, ...]:
        """Return what the last ``apply`` paid to each seat."""  # [seats]
        ...

    def returns(self) -> tuple[float, ...]:
        """Return the sum of all rewards so far, by seat."""  # [seats]
        ...

    def copy(self) -> Self:
        """Return an independent match in the same position, with its generator in the same state."""
        ...


class Opening(NamedTuple):
    """A match for other roles that a match opens."""

    game: str
    text: str  # what they are handed


@runtime_checkable
class Opener(Protocol):
    """A Game whose matches open matches for other roles, any number of times, in order or side by side.

    Its ``spec.opens`` names their games.
    """

    def openings(self) -> tuple[Opening, ...]:
        """Return the matches that the last action opened, to be played side by side; () for none."""
        ...

    def close(self, outcomes: Sequence[str]) -> None:
        """Take what ``openings()`` came to, in that order: all that this match may ever see of them."""
        ...

    def opened_returns(self) -> tuple[tuple[float, ...], ...]:
        """Return what each match ever opened pays to its seats, in order, now that this one has ended."""
        ...


@runtime_checkable
class Opened(Protocol):
    """A Game that other matches open. It is reset with the deal seed of the match that opens it.

    What it pays is the opener's to say, so once ``open`` was called its own rewards are 0.
    """

    def open(self, text: str) -> None:
        """Begin with what was handed over; called once after ``reset``."""
        ...

    def outcome(self) -> str:
        """Return what the match came to, once it is over."""
        ...


@runtime_checkable
class Equipped(Protocol):
    """A Game that has tools for the roles whose cards allow them."""

    def tools(self) -> Mapping[str, Callable[..., str]]:
        """Return functions by name, for this match. They change nothing."""
        ...

    def calls(self) -> tuple[str, ...]:
        """Return the calls that a seat whose replies are chosen from a list is offered now."""
        ...

    def told(self, call: str, output: str) -> None:
        """Take what a call of the seat to act was told, for what it observes from now on."""
        ...


@runtime_checkable
class Scripted(Protocol):
    """A Game that knows players for itself, such as an optimal and a poor one."""

    def scripts(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return by name what gives the action, or call, of the seat to act."""
        ...
