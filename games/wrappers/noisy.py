"""``noisy(GAME,percent=10)``: each word of an observation is replaced by "?" with that probability.

What is lost is drawn once for each information state, by ``seed``: a player is shown the same whenever it gets there,
so that its policy is a table and exact measures hold. The labels before colons are kept. The mean over seeds is what
fresh noise would do to a player who takes each observation by itself.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.wrappers.wrapper import Kept, Wrapper

if TYPE_CHECKING:
    from games.spec import Game

LOST = "?"


class Noisy(Wrapper):
    """One match in which words of observations are lost."""

    title = "noisy"
    keeps = frozenset(Kept) - {Kept.OBSERVATIONS}

    def __init__(self, inner: Game, percent: int = 10, seed: int = 0) -> None:
        """Lose each word with a chance of ``percent``. Raises UsageError for more than 100."""
        super().__init__(inner, percent=percent, seed=seed)
        if percent > 100:
            raise UsageError(f"{self.spec.name}: percent={percent}, but a chance is at most 100 percent.")
        self._chance, self._seed = percent / 100, seed

    def observe(self, seat: int) -> str:
        """Return what is left of the observation."""
        rng = random.Random(derive_seed(self._seed, "noise", seat, self.information_state(seat)))
        return "\n".join(self._line(line, rng) for line in super().observe(seat).split("\n"))

    def _line(self, line: str, rng: random.Random) -> str:
        label, colon, rest = line.rpartition(":")
        lost = re.sub(r"\S+", lambda word: LOST if rng.random() < self._chance else word.group(), rest)
        return label + colon + lost
