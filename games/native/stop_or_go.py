"""``stop_or_go``: one seat stops at once for a little, or continues and chooses again for all or nothing.

The smallest game in which the policy decides when a match ends. Credit that compares turns of one index with each
other sees in the second turn only those who went on, so that what going on is worth cancels out of the first:
docs/guide/is_my_advantage_biased.md has the bias in closed form.
"""

from __future__ import annotations

from games.native.dealt import DealtGame
from games.spec import GameSpec, Utility

STOP, GO = "stop", "go"
LEFT, RIGHT = "left", "right"
PAYS = {STOP: 0.25, LEFT: 1.0, RIGHT: 0.0}  # the action that ends the match, and what it pays


class StopOrGo(DealtGame):
    """One match of ``stop_or_go``."""

    spec = GameSpec(
        name="stop_or_go",
        seats=1,
        num_actions=4,
        max_turns=2,
        min_return=0.0,
        max_return=1.0,
        utility=Utility.IDENTICAL,
        perfect_information=True,
        has_chance=False,
        optimum=1.0,
    )

    def __init__(self) -> None:
        self.reset(0)

    def to_act(self) -> int | None:
        """Return the seat until it has stopped or chosen twice."""
        return None if self._done in PAYS else 0

    def observe(self, _seat: int) -> str:
        """Return what may be done, or how it ended."""
        if self._done in PAYS:
            return f"You chose {self._done}."
        return "You went on: left or right." if self._done else "Stop or go."

    def information_state(self, seat: int) -> str:
        """Return the seat and what it did last, which says all."""
        return f"{seat} {self._done}"

    def returns(self) -> tuple[float, ...]:
        """Return what the last action paid; 0 before the end."""
        return (PAYS.get(self._done, 0.0),)

    def _begin(self) -> None:
        self._done = ""

    def _options(self) -> list[tuple[str, int]]:
        if self._done in PAYS:
            return []
        return [(LEFT, 2), (RIGHT, 3)] if self._done == GO else [(STOP, 0), (GO, 1)]

    def _play(self, action: str) -> None:
        self._done = action
