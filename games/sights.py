"""What a seat can be shown beyond its observation, by name: ``SIGHTS``. Teachers and critics that see more get it.

hidden: what the game hides from the seat, in words: the other seats' cards, or the answer to a question.
teammates: what the seats with which it wins and loses are shown.
seats: what every other seat is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from games.spec import Game, Utility


@runtime_checkable
class HasHidden(Protocol):
    """A Game that tells what it hides from a seat."""

    def hidden(self, seat: int) -> str:
        """Return in lines, as in an observation, what the seat is not shown of the position; "" where that is nothing.

        What chance has not decided yet is not hidden: nobody could be shown it.
        """
        ...


def hidden(game: Game, seat: int) -> str:
    """Return what the game hides from the seat; "" where it hides nothing, or does not tell."""
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


SIGHTS: dict[str, Callable[[Game, int], str]] = {"hidden": hidden, "teammates": teammates, "seats": seats}


def seen(game: Game, seat: int, sights: Sequence[str]) -> str:
    """Return all that the seat sees beyond its observation with these sights; "" for nothing."""
    return "\n".join(text for name in sights if (text := SIGHTS[name](game, seat)))


def with_sights(observation: str, more: str) -> str:
    """Return an observation with what is seen beyond it below."""
    return f"{observation}\n{more}" if more else observation
