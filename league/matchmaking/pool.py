"""What a matchmaking rule may look at when it weighs past opponents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from league.config import MatchmakingConfig


@dataclass(frozen=True, slots=True)
class OpponentPool:
    """The past snapshots that may fill a seat, and how the live policies that would meet them fare.

    ``win_rate(player, opponent, game)`` is in [0, 1], 1/2 for a pair that never met.
    """

    snapshots: Sequence[str]  # oldest first  # [N]
    learners: tuple[str, ...]  # the live policies that may meet them
    game: str
    win_rate: Callable[[str, str, str], float]
    config: MatchmakingConfig

    def win_rates(self) -> NDArray[np.float64]:
        """Return the learners' mean rate of winning against each snapshot [N]."""
        rates = [[self.win_rate(learner, past, self.game) for past in self.snapshots] for learner in self.learners]
        return np.asarray(np.mean(rates, axis=0))
