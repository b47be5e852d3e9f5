"""``worded(GAME)``: each action can be expressed in several sentences, and a seat chooses one of them.

``ways`` sentences stand for each action. What the others are shown is the move, not how it was said, so that the game
is the one inside with more ways to say the same: its values and equilibria stay. It is what clustering of utterances
can be tried on, as the right clusters are known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from games.common.errors import UsageError
from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import Game

SENTENCES = (
    "I {}.",
    "My move: {}.",
    "Let it be {} then.",
    "Now {}, please.",
    "This time I choose to {}.",
    "I will {} here.",
    "I think {} is best.",
    "Well, {} it is.",
)


def sentences(action: str, ways: int) -> tuple[str, ...]:
    """Return the sentences that stand for an action."""
    return tuple([sentence.format(action) for sentence in SENTENCES[:ways]])


class Worded(Wrapper):
    """One match with actions in sentences."""

    title = "worded"
    keeps = frozenset({Kept.RETURNS, Kept.OBSERVATIONS, Kept.CARDS})
    _spoken: tuple[tuple[int, int], ...] = ()  # (seat, sentence) of each move

    def __init__(self, inner: Game, ways: int = 4) -> None:
        """Say each action in ``ways`` ways. Raises UsageError for none, or more than there are."""
        super().__init__(inner, ways=ways)
        if not 1 <= ways <= len(SENTENCES):
            raise UsageError(f"There is no game {self.spec.name!r}: ways is 1 to {len(SENTENCES)}.")
        self.ways = ways
        self.spec = replace(self.spec, num_actions=ways * self.spec.num_actions)

    def legal_actions(self) -> tuple[str, ...]:
        """Return the sentences of the legal actions, grouped by action."""
        return tuple([said for action in self._inner.legal_actions() for said in sentences(action, self.ways)])

    def legal_ids(self) -> tuple[int, ...]:
        """Return the ids of the sentences: ``ways`` for each of the game inside."""
        return tuple([number * self.ways + way for number in self._inner.legal_ids() for way in range(self.ways)])

    def information_state(self, seat: int) -> str:
        """Return what the seat can tell apart: also which sentences it has said itself."""
        spoken = ",".join([str(sentence) for speaker, sentence in self._spoken if speaker == seat])
        return f"{super().information_state(seat)} [{spoken}]"

    def reset(self, seed: int) -> None:
        """Start a new match; ``seed`` fixes every chance event in it."""
        super().reset(seed)
        self._begin()

    def apply(self, action: str) -> None:
        """Play the action of a sentence. Raises ValueError for any other string."""
        said = self.legal_actions()
        if action not in said:
            legal = f"legal: {', '.join(said)}" if said else "the match is over"
            raise ValueError(f"{action!r} is not a legal action here; {legal}")
        seat, (move, way) = self.to_act(), divmod(said.index(action), self.ways)
        assert seat is not None, "some seat is to act where something is legal"
        super().apply(self._inner.legal_actions()[move])
        self._spoken = (*self._spoken, (seat, way))

    def _begin(self) -> None:
        self._spoken = ()
