"""What a game is: its facts as data (GameSpec) and the moves of one match (Game)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self, runtime_checkable


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
