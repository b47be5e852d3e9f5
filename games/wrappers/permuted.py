"""``permuted(GAME)``: every seat reads the next seat's role card, and plays its own seat.

A role that plays by what it observes plays as before; one that was told "you are the first player" now hears that it
is the second. The names of the roles, and who trains them, stay with the seats.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import Game


class Permuted(Wrapper):
    """One match with the roles' words moved on by one seat."""

    title = "permuted"
    keeps = frozenset(Kept) - {Kept.CARDS}

    def __init__(self, inner: Game) -> None:
        """Move the words on."""
        super().__init__(inner)
        seats = self.spec.seats
        self.spec = replace(self.spec, card_seats=tuple((seat + 1) % seats for seat in range(seats)))
