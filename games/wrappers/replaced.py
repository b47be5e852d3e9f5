"""``replaced(GAME,seat=0,turn=2)``: from that turn on, a newcomer plays in the seat.

The newcomer has a seat of its own, the last one, sees what the seat sees, and both are paid what the seat earns. If
the newcomer plays the same policy, nothing changes. Otherwise the loss is what the first player and the others had
agreed on without words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from games.common.errors import UsageError
from games.spec import Utility
from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import Game


class Replaced(Wrapper):
    """One match in which a seat's player is replaced."""

    title = "replaced"
    keeps = frozenset(Kept)

    def __init__(self, inner: Game, seat: int = 0, turn: int = 2) -> None:
        """Replace ``seat``'s player before its turn number ``turn``, counted from 1. Raises UsageError."""
        super().__init__(inner, seat=seat, turn=turn)
        seats = inner.spec.seats
        if seat >= seats or turn < 1:
            raise UsageError(f"{self.spec.name}: seat is 0 to {seats - 1}, and turn is 1 or more.")
        self._replaced, self._turn, self._turns = seat, turn, 0
        utility = inner.spec.utility if inner.spec.utility is Utility.IDENTICAL else Utility.GENERAL_SUM
        self.spec = replace(self.spec, seats=seats + 1, utility=utility, card_seats=(*range(seats), seat))

    def reset(self, seed: int) -> None:
        """Start a new match, with the first player in the seat."""
        super().reset(seed)
        self._begin()

    def to_act(self) -> int | None:
        """Return the seat whose turn it is; the newcomer's once it has come."""
        seat = super().to_act()
        return self.spec.seats - 1 if seat == self._replaced and self._turns >= self._turn - 1 else seat

    def observe(self, seat: int) -> str:
        """Return what a seat is shown; the newcomer is shown what the seat was."""
        return super().observe(self._inner_seat(seat))

    def information_state(self, seat: int) -> str:
        """Return the information state of a seat; the newcomer has the seat's."""
        return super().information_state(self._inner_seat(seat))

    def apply(self, action: str) -> None:
        """Play a legal action. Raises ValueError for any other string."""
        seat = super().to_act()
        super().apply(action)
        self._turns += seat == self._replaced

    def rewards(self) -> tuple[float, ...]:
        """Return what the last ``apply`` paid to each seat; to the newcomer as to the seat."""
        paid = super().rewards()
        return (*paid, paid[self._replaced])

    def returns(self) -> tuple[float, ...]:
        """Return the sum of all rewards so far, by seat; the newcomer's are the seat's."""
        paid = super().returns()
        return (*paid, paid[self._replaced])

    def _inner_seat(self, seat: int) -> int:
        return self._replaced if seat == self.spec.seats - 1 else seat

    def _begin(self) -> None:
        self._turns = 0
