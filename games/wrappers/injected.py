"""``injected(GAME,text=0,quoted=1)``: the seat to act reads an instruction, a text of ``injections``.

With ``quoted=1`` it is shown as what another player says, in the quotation marks of ``games.talk.conversation``; with
``quoted=0`` it stands below the observation as if it belonged there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from games.common.errors import UsageError
from games.talk.conversation import quoted as in_quotation_marks
from games.wrappers.injections import injection
from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import Game

SPEAKER = "Another player says"


class Injected(Wrapper):
    """One match in which seats read an injected instruction."""

    title = "injected"
    keeps = frozenset(Kept) - {Kept.OBSERVATIONS}

    def __init__(self, inner: Game, text: int = 0, quoted: int = 1) -> None:
        """Say the text of this number. Raises UsageError for a ``quoted`` that is neither 0 nor 1."""
        super().__init__(inner, text=text, quoted=quoted)
        if quoted not in (0, 1):
            raise UsageError(f"{self.spec.name}: quoted is 1, as what another player says, or 0, as it is.")
        self._injection, self._quoted = injection(text), bool(quoted)

    def observe(self, seat: int) -> str:
        """Return what the seat is shown, and below it the text where it is the seat's turn."""
        shown = super().observe(seat)
        if self.to_act() != seat:
            return shown
        said = self._injection.text(self.legal_actions())
        return f"{shown}\n{SPEAKER}: {in_quotation_marks(said)}" if self._quoted else f"{shown}\n{said}"
