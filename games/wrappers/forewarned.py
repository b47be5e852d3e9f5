"""``forewarned(GAME)``: the seat to act is told which moves win at once, and which do not let the other win next.

Below the board stands ``Wins: 5`` where a move ends the match won, else ``Safe: 3`` where others would let the other
end it so, ``Safe: none`` where all would, and nothing elsewhere. A seat could have seen as much, so values are those of
GAME; but a small model learns to read words long before it sees which squares form a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from games.common.errors import UsageError
from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import ChoiceGame, Game

WINS, SAFE, NONE = "Wins: ", "Safe: ", "none"


class Forewarned(Wrapper):
    """One match in which seats are told what one more move of theirs, and one of the other's, would win."""

    title = "forewarned"
    keeps = frozenset(Kept) - {Kept.OBSERVATIONS}

    def __init__(self, inner: Game) -> None:
        """Tell it. Raises UsageError for a game with chance, hidden moves, or other seats than two opponents."""
        super().__init__(inner)
        spec = inner.spec
        if spec.seats != 2 or spec.has_chance or not spec.perfect_information or not spec.competitive:
            raise UsageError(
                f"{self.spec.name}: {spec.name} is not a game of two seats, one of which wins what the other loses, "
                "without chance or hidden moves, as tic_tac_toe, connect_four and hex are."
            )

    def observe(self, seat: int) -> str:
        """Return what the seat is shown, and below it, if it is to act, which moves win and which are safe."""
        return "\n".join([super().observe(seat), *(self._told(seat) if seat == self.to_act() else ())])

    def _told(self, seat: int) -> tuple[str, ...]:
        after = {label: _after(self._inner, label) for label in self.legal_actions()}
        if winning := [label for label, match in after.items() if self._won(match, seat)]:
            return (WINS + " ".join(winning),)
        safe = [label for label, match in after.items() if not self._wins_next(match, 1 - seat)]
        return () if len(safe) == len(after) else (SAFE + (" ".join(safe) or NONE),)

    def _won(self, match: ChoiceGame, seat: int) -> bool:
        return match.to_act() is None and match.returns()[seat] == self.spec.max_return

    def _wins_next(self, match: ChoiceGame, seat: int) -> bool:
        """Return whether the seat is to act and has a move that ends the match won."""
        return match.to_act() == seat and any(self._won(_after(match, label), seat) for label in match.legal_actions())


def _after(match: ChoiceGame, label: str) -> ChoiceGame:
    copy = match.copy()
    copy.apply(label)
    return copy
