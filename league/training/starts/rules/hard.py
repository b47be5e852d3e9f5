"""Replay of what is hard, and of rare successes.

A start that was solved at least once weighs (1 - p) ** power: the rarer its successes, the more often it is played, so
that a group has one (as ARPO, Lu et al. 2025, replays successes into groups without any, and rStar2, Shang et al. 2025,
resamples on what was correct). One never solved weighs nothing: nothing could be learned from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.training.starts.measured import StoredStart
from league.training.starts.rules.moment import Moment


def hard(starts: Sequence[StoredStart], moment: Moment) -> NDArray[np.float64]:
    """Return (1 - p) ** power of each start that was ever solved, even in part, else 0 [N]."""
    rates = np.array([one.rate for one in starts], np.float64)
    solved = np.array([one.best > 0.0 for one in starts], bool)
    return np.where(solved, (1.0 - rates) ** moment.config.power, 0.0)
