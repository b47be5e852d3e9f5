"""``informed(GAME,seat=0)``: the seat of that number, or with 0 every seat, is shown what GAME hides from it.

A player that learns this game and GAME by one policy can teach itself: what it does where it sees the others' cards is
compared with what it does where it does not (``teacher.player = "self"``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from games.common.errors import UsageError
from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import Game


class Informed(Wrapper):
    """One match in which seats see what is hidden."""

    title = "informed"
    keeps = frozenset(Kept) - {Kept.OBSERVATIONS, Kept.INFORMATION}

    def __init__(self, inner: Game, seat: int = 0) -> None:
        """Show it to the seat of this number, from 1; 0: to all. Raises UsageError for a number without a seat."""
        from games.privileged import hidden

        super().__init__(inner, seat=seat)
        if seat > self.spec.seats:
            raise UsageError(
                f"{self.spec.name}: seat={seat}, but the seats are 1 to {self.spec.seats}, and 0 means all."
            )
        if not any(hidden(inner, place) for place in range(inner.spec.seats)):
            raise UsageError(
                f"{self.spec.name}: {inner.spec.name} does not tell what it hides. Take kuhn_poker, leduc_poker, "
                "liars_dice or tiny_hanabi, or give the game the method of games.privileged.HasHidden."
            )
        self._only = seat - 1

    def observe(self, seat: int) -> str:
        """Return what the seat is shown, and below it what the game hides from it."""
        return self._with_hidden(super().observe(seat), seat)

    def information_state(self, seat: int) -> str:
        """Return a key that is equal for exactly those positions that ``seat`` cannot distinguish."""
        return self._with_hidden(super().information_state(seat), seat)

    def _with_hidden(self, shown: str, seat: int) -> str:
        from games.privileged import hidden, with_privileged  # a registry, whose settings are slow to import

        return with_privileged(shown, hidden(self._inner, seat) if self._only in (-1, seat) else "")
