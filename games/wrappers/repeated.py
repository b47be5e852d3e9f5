"""``repeated(GAME,rounds=3)``: several rounds with the same players, each dealt anew and shown the earlier ones.

A match pays the sum of its rounds. Round k, from 1, is the match of the game inside whose seed derives from the whole
match's and k, so that what a seat does in a round changes no later deal. A seat that wants to use how the others have
played must remember it: ``repeated(simple_negotiation,rounds=10)`` is long in a way that one negotiation is not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from games.common.errors import NotEnumerable, UsageError
from games.common.seeds import derive_seed
from games.wrappers.retried import LAST, MOST_ATTEMPTS, Retried

if TYPE_CHECKING:
    from typing import Self

    from games.spec import Game


class Repeated(Retried):
    """One match of several rounds."""

    title = "repeated"
    unit = "Round"

    def __init__(self, inner: Game, rounds: int = 3) -> None:
        """Play ``inner`` so often. Raises UsageError for a number of rounds that there is not."""
        name = self._name(inner.spec.name, {"rounds": rounds})
        if not 2 <= rounds <= MOST_ATTEMPTS:
            raise UsageError(f"There is no game {name!r}: rounds is 2 to {MOST_ATTEMPTS}.")
        self._hold(inner, name, rounds, LAST)
        facts = inner.spec
        self.spec = replace(
            self.spec,
            min_return=rounds * facts.min_return,
            max_return=rounds * facts.max_return,
            optimum=None if facts.optimum is None else rounds * facts.optimum,
        )

    def apply(self, action: str) -> None:
        """Play an action; the next round begins where it ends one. Raises ValueError for one that is not legal."""
        before = self.returns()
        super().apply(action)
        self._before = before

    def rewards(self) -> tuple[float, ...]:
        """Return what the last action paid."""
        return tuple([now - then for now, then in zip(self.returns(), self._before, strict=True)])

    def returns(self) -> tuple[float, ...]:
        """Return what the rounds have paid so far."""
        rounds = [one.returns for one in self._over] + ([] if self._ended() else [self._inner.returns()])
        return tuple([float(sum(paid)) for paid in zip(*rounds, strict=True)])

    def undealt(self) -> Self:
        """Raise NotEnumerable: the deals of all rounds together are too many."""
        raise NotEnumerable(f"{self.spec.name} deals each round anew, so its positions are not enumerated.")

    def _deal(self) -> None:
        self._inner.reset(derive_seed(self._seed, "round", len(self._over) + 1))
