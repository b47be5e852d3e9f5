"""Privileged information, by name: what a teacher or critic may see and the seat may not. ``PRIVILEGED`` lists it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from games.common.registry import Entry, Registry
from games.spec import Game, Utility


@runtime_checkable
class HasHidden(Protocol):
    """A Game that can say what it hides from a seat."""

    def hidden(self, seat: int) -> str:
        """Return in lines, as in an observation, what the seat is not shown of the position; "" where that is nothing.

        What chance has not decided yet is not hidden: nobody could be shown it.
        """
        ...


def hidden(game: Game, seat: int) -> str:
    """Return what the game hides from the seat, in words; "" where it hides nothing, or cannot say what."""
    return game.hidden(seat) if isinstance(game, HasHidden) else ""


def teammates(game: Game, seat: int) -> str:
    """Return what each of the seats that win and lose with this one is shown; "" where there is none."""
    spec = game.spec
    together = [range(spec.seats)] if spec.utility is Utility.IDENTICAL else spec.teams
    return _shown(game, [mate for team in together if seat in team for mate in team if mate != seat])


def seats(game: Game, seat: int) -> str:
    """Return what every other seat is shown; "" in a game of one seat."""
    return _shown(game, [other for other in range(game.spec.seats) if other != seat])


def _shown(game: Game, others: Sequence[int]) -> str:
    return "\n".join(f"Seat {other + 1} is shown:\n{game.observe(other)}" for other in others)


Privileged = Entry[Callable[[Game, int], str]]  # ``make`` returns, in lines, what a seat does not see of a position
PRIVILEGED: Registry[Privileged] = Registry(
    "privileged",
    "kind of privileged information",
    Entry,
    "teacher.sees or critic.sees",
    {"hidden": Entry(hidden), "teammates": Entry(teammates), "seats": Entry(seats)},
)
register = PRIVILEGED.register


def seen(game: Game, seat: int, kinds: Sequence[str]) -> str:
    """Return the privileged information of these kinds at a position; "" for nothing."""
    return "\n".join(text for name in kinds if (text := PRIVILEGED[name].make(game, seat)))


def with_privileged(observation: str, more: str) -> str:
    """Return an observation with privileged information below it."""
    return f"{observation}\n{more}" if more else observation
