"""A cache of the magnet's and the reference's log-probs over two successive updates.

In a game of few positions an update reads the same prompts as the one before it, and a magnet has the same weights for
many updates. A result is keyed by everything that goes into its pass, so it is bit for bit what a new pass would give:
a resumed run, which starts with an empty cache, learns the same.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


class FrozenResults:
    """Results of this update and the one before, by model and input. Clear them when a frozen model changes."""

    def __init__(self) -> None:
        self._before: dict[object, Tensor] = {}
        self._now: dict[object, Tensor] = {}

    def begin_update(self) -> None:
        """Forget results that the last update did not need."""
        self._before, self._now = self._now, {}

    def clear(self) -> None:
        """Forget everything: a frozen model has changed."""
        self._before, self._now = {}, {}

    def get(self, key: object, compute: Callable[[], Tensor]) -> Tensor:
        """Return the result of a key; ``compute`` is called if it is not cached."""
        cached = self._now.get(key, self._before.get(key))
        self._now[key] = result = compute() if cached is None else cached
        return result
