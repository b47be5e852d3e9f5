"""``advised(GAME,seat=1,form=0)``: an adviser writes one text for a seat of GAME, and is paid what the text changes.

The adviser sees what the seat sees first, and writes. GAME is then played twice, on the same deal and with the same
draws, once with the text in the slot ``{plan}`` of the seat's card and once without, and the adviser is paid what the
seat won with it less what it won without. Text that changes nothing is paid exactly 0. Both matches pay their own seats
as GAME does, so who is advised learns from them. ``form=1`` lets the adviser choose one of the seat's actions instead
of writing words.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Self

from games.common.errors import NotEnumerable, UsageError
from games.spec import Choices, FreeText, GameSpec, HasTools, IsSubmatch, Submatch, Utility, labels
from games.talk.conversation import utterance
from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from games.spec import Game

MOST_CHARACTERS = 200
SLOT = "plan"


class Advised(Wrapper):
    """One match: a text, and two matches of the game inside."""

    title = "advised"
    keeps = frozenset[Kept]()

    def __init__(self, inner: Game, seat: int = 1, form: int = 0) -> None:
        """Advise the seat of this number, from 1. Raises UsageError for a seat or a form that there is not."""
        facts = inner.spec
        name = self._name(facts.name, {"seat": seat, "form": form})
        if not (1 <= seat <= facts.seats and form in (0, 1)):
            raise UsageError(
                f"There is no game {name!r}: seat is 1 to {facts.seats}, and form 0 (words) or 1 (actions)."
            )
        if isinstance(inner, HasTools | IsSubmatch):
            raise UsageError(f"{name}: games with tools and those that are submatches cannot be advised; take sums.")
        if form and facts.free_text:
            raise UsageError(f"{name}: {facts.name} asks for words, so its actions cannot be listed: take form=0.")
        spread = facts.max_return - facts.min_return
        self._inner, self._seat, self._form, self._least = inner, seat - 1, form, facts.min_return
        self._text, self._open, self._returns = "", False, (0.0,)
        self.spec = GameSpec(
            name=name,
            seats=1,
            num_actions=facts.num_actions if form else 0,
            max_turns=1,
            min_return=-spread,
            max_return=spread,
            utility=Utility.GENERAL_SUM,
            perfect_information=False,
            has_chance=facts.has_chance,
            submatch_games=(facts.name,),
            free_text=not form,
        )

    def reset(self, seed: int) -> None:
        """Deal the game inside."""
        self._inner.reset(seed)
        self._text, self._open, self._returns = "", False, (0.0,)

    def to_act(self) -> int | None:
        """Return the adviser until it has written."""
        return None if self._text else 0

    def actions(self) -> Choices | FreeText:  # type: ignore[override]
        """Return what advice may be."""
        if self._text:
            return Choices((), ())
        if self._form:
            return Choices(labels(self._inner), self._inner.legal_ids())
        read = partial(utterance, most=MOST_CHARACTERS)
        return FreeText(MOST_CHARACTERS, f"advice in one line of at most {MOST_CHARACTERS} characters", read)

    def legal_actions(self) -> tuple[str, ...]:
        """Return the actions that may be advised."""
        return labels(self) if self._form else ()

    def legal_ids(self) -> tuple[int, ...]:
        """Return their ids."""
        return super().legal_ids() if self._form and not self._text else ()

    def observe(self, _seat: int) -> str:
        """Return what the seat that is advised sees first."""
        return super().observe(self._seat)

    def information_state(self, _seat: int) -> str:
        """Return what the seat that is advised can tell apart, and what was written."""
        return f"{super().information_state(self._seat)} {self._text}"

    def apply(self, action: str) -> None:
        """Write the text. Raises ValueError for anything else."""
        asked = self.actions()
        if not (asked.read(action) == action if isinstance(asked, FreeText) else action in asked.labels):
            raise ValueError(f"{action[:80]!r} is not legal here; legal: {', '.join(labels(self)) or 'words'}")
        self._text, self._open = action, True

    def submatches(self) -> tuple[Submatch, ...]:
        """Return the match with the text and the match without it, which draw alike."""
        if not self._open:
            return ()
        name = self.spec.submatch_games[0]
        return tuple([Submatch(name, "", given=((self._seat, SLOT, text),), draws=0) for text in (self._text, "")])

    def record_outcomes(self, outcomes: Sequence[str]) -> None:
        """Pay what the text changed. A forfeited match counts as the least that the game pays."""
        with_text, without = [json.loads(text)[self._seat] if text else self._least for text in outcomes]
        self._open, self._returns = False, (with_text - without,)

    def submatch_returns(self) -> tuple[tuple[float, ...], ...]:
        """Return 0 for each seat: their own game has paid them."""
        return ((0.0,) * self._inner.spec.seats,) * (2 if self._text else 0)

    def rewards(self) -> tuple[float, ...]:
        """Return what the text was paid."""
        return self._returns

    def returns(self) -> tuple[float, ...]:
        """Return what the text was paid; 0 before both matches are over."""
        return self._returns

    def undealt(self) -> Self:
        """Raise NotEnumerable: what a text is paid depends on who plays the two matches."""
        raise NotEnumerable(f"{self.spec.name} pays what other matches did, so its positions alone have no values.")
