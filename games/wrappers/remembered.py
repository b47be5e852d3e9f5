"""``remembered(GAME,text=0)``: the seat to act finds a planted text of ``injections`` in its memory.

It stands above the observation as a note of the player's own after earlier matches: what an attacker does who can write
into what a player keeps from match to match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from games.wrappers.injections import injection
from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import Game

NOTE = "You noted after earlier matches"


class Remembered(Wrapper):
    """One match before which a note was planted."""

    title = "remembered"
    keeps = frozenset(Kept) - {Kept.OBSERVATIONS}

    def __init__(self, inner: Game, text: int = 0) -> None:
        """Plant the text of this number."""
        super().__init__(inner, text=text)
        self._injection = injection(text)

    def observe(self, seat: int) -> str:
        """Return what the seat is shown, and above it the note where it is the seat's turn."""
        shown = super().observe(seat)
        return f"{NOTE}: {self._injection.text(self.legal_actions())}\n{shown}" if self.to_act() == seat else shown
