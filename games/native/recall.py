"""``recall``: one word of the first turn has to be named in the last, and what lies between says nothing of it.

The smallest long match. A seat that sees all of it, or a summary that keeps the word, is paid 1; one whose context was
cut before the first turn can only guess, and is paid 1 with probability 1 / words.
"""

from __future__ import annotations

from games.common.errors import UsageError
from games.native.dealt import DealtGame
from games.native.names import game_name
from games.spec import GameSpec, Utility

WORDS = ("red", "blue", "green", "gold", "black", "white", "pink", "grey")
NEXT = "next"


class Recall(DealtGame):
    """One match of ``recall``."""

    _dealt: tuple[str, ...]  # the words shown so far
    _said: tuple[str, ...]  # what was answered

    def __init__(self, turns: int = 5, words: int = 4) -> None:
        name = game_name("recall", Recall, turns=turns, words=words)
        if not (2 <= turns <= 1000 and 2 <= words <= len(WORDS)):
            raise UsageError(f"There is no game {name!r}: turns is 2 to 1000, and words 2 to {len(WORDS)}.")
        self._turns, self._words = turns, WORDS[:words]
        self.spec = GameSpec(
            name=name,
            seats=1,
            num_actions=words + 1,
            max_turns=turns,
            min_return=0.0,
            max_return=1.0,
            utility=Utility.IDENTICAL,
            perfect_information=False,
            has_chance=True,
            optimum=1.0,
        )
        self.reset(0)

    def chance_outcomes(self) -> tuple[tuple[str, float], ...]:
        """Return the words that this turn may show; the last shows none."""
        if len(self._dealt) > len(self._said) or len(self._dealt) == self._turns - 1:
            return ()
        return tuple([(word, 1.0 / len(self._words)) for word in self._words])

    def apply_chance(self, outcome: str) -> None:
        """Show a word."""
        self._dealt = (*self._dealt, outcome)

    def to_act(self) -> int | None:
        """Return the seat until it has named the word."""
        return 0 if len(self._said) < self._turns and not self.chance_outcomes() else None

    def past(self, _seat: int) -> tuple[str, ...]:
        """Return the words of earlier turns."""
        return tuple([self._line(turn) for turn in range(min(len(self._said), len(self._dealt)))])

    def observe(self, seat: int) -> str:
        """Return the words so far, and what is asked now."""
        if len(self._said) >= self._turns:
            return "\n".join([*self.past(seat), f"You said {self._said[-1]}."])
        now = self._line(len(self._said)) if len(self._said) < len(self._dealt) else "Which word was to be kept?"
        return "\n".join([*self.past(seat), now])

    def hint(self, _seat: int) -> str:
        """Return the word that will be asked for."""
        return f"Keep {self._dealt[0]}."

    def information_state(self, seat: int) -> str:
        """Return all that the seat saw."""
        return f"{seat} {self.observe(seat)}"

    def returns(self) -> tuple[float, ...]:
        """Return 1 once the word was named."""
        return (float(len(self._said) == self._turns and self._said[-1] == self._dealt[0]),)

    def _begin(self) -> None:
        self._dealt, self._said = (), ()

    def _options(self) -> list[tuple[str, int]]:
        if self.to_act() is None:
            return []
        if len(self._said) < self._turns - 1:
            return [(NEXT, 0)]
        return [(word, number) for number, word in enumerate(self._words, 1)]

    def _play(self, action: str) -> None:
        self._said = (*self._said, action)

    def _line(self, turn: int) -> str:
        return f"Turn {turn + 1}: {'keep' if turn == 0 else 'saw'} {self._dealt[turn]}"
