"""``late(GAME,moves=1)``: observations are this many moves old: a seat decides before it sees the latest moves.

Of what has happened since, a seat knows its own moves and what is legal now. It remembers all that it was shown before,
so that recall stays perfect. Moves of all seats count; chance's do not, so cards that were dealt are seen at once where
no move was made since. Until this many moves were made, the beginning is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import ChoiceGame, Game


class _Move(NamedTuple):
    """A move that was made."""

    before: ChoiceGame  # the position that it was made in
    seat: int
    action: str
    knew: str  # the information state of the seat that made it


class Late(Wrapper):
    """One match that is seen late."""

    title = "late"
    keeps = frozenset({Kept.IDS, Kept.LABELS, Kept.RETURNS, Kept.CARDS})

    def __init__(self, inner: Game, moves: int = 1) -> None:
        """Show positions that are ``moves`` old."""
        super().__init__(inner, moves=moves)
        self._lag = moves
        self._moves: tuple[_Move, ...] = ()

    def reset(self, seed: int) -> None:
        """Start a new match."""
        super().reset(seed)
        self._begin()

    def observe(self, seat: int) -> str:
        """Return what the seat is shown, and below it its own moves since."""
        own_moves = [move.action for move in self._unseen() if move.seat == seat]
        shown = str(self._shown().observe(seat))
        return f"{shown}\nYour moves since: {' '.join(own_moves)}" if own_moves else shown

    def information_state(self, seat: int) -> str:
        """Return all that the seat has been shown and done, and what is legal for it now."""
        own_moves = [move for move in self._moves if move.seat == seat]
        past = f"{own_moves[-1].knew} / {own_moves[-1].action} / " if own_moves else ""
        legal = " ".join(self.legal_actions()) if self.to_act() == seat else ""
        return f"{past}{self._shown().information_state(seat)} [{legal}]"

    def apply(self, action: str) -> None:
        """Play a legal action. Raises ValueError for any other string."""
        seat = self.to_act()
        before = self._inner.copy()
        knew = "" if seat is None else self.information_state(seat)
        super().apply(action)
        assert seat is not None, "a match that is over takes no action"
        self._moves = (*self._moves, _Move(before, seat, action, knew))

    def _unseen(self) -> tuple[_Move, ...]:
        return self._moves[-self._lag :] if self._lag else ()

    def _shown(self) -> ChoiceGame:
        """Return the position that seats are shown."""
        unseen = self._unseen()
        return unseen[0].before if unseen else self._inner

    def _begin(self) -> None:
        self._moves = ()
