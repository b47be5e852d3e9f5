"""Log-probs of frozen models that the update before has computed too: of the magnet, and of the reference.

In a game of few positions an update reads the prompts of the one before it, and a magnet has the same weights for many
updates. A result is kept by everything that goes into its pass, so it has the bits of a pass that is run again: a
resumed run, which begins with nothing kept, learns the same.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


class FrozenResults:
    """Results of this update and the one before, by model and input. To be dropped when a frozen model changes."""

    def __init__(self) -> None:
        self._before: dict[object, Tensor] = {}
        self._now: dict[object, Tensor] = {}

    def begin_update(self) -> None:
        """Forget results that the last update did not need."""
        self._before, self._now = self._now, {}

    def clear(self) -> None:
        """Forget all: a frozen model has changed."""
        self._before, self._now = {}, {}

    def get(self, key: object, compute: Callable[[], Tensor]) -> Tensor:
        """Return the result of a key, which ``compute`` returns if it is not kept."""
        kept = self._now.get(key, self._before.get(key))
        self._now[key] = result = compute() if kept is None else kept
        return result
