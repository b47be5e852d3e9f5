"""Only starts whose matches differ much (Wang et al. 2025, RAGEN: filtering by the variance of rewards).

Groups of equal returns teach nothing and let the update drift. The share ``keep`` of the starts that have the largest
standard deviation is played, all alike; those equal to the last of them are in, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.training.starts.measured import StoredStart
from league.training.starts.rules.moment import Moment
from league.training.starts.rules.plr import EQUAL_DIGITS


def variance(starts: Sequence[StoredStart], moment: Moment) -> NDArray[np.float64]:
    """Return 1 for each start that is kept, else 0 [N]."""
    if not starts:
        return np.zeros(0)
    spreads: NDArray[np.float64] = np.array([round(one.spread, EQUAL_DIGITS) for one in starts], np.float64)
    kept = max(1, round(moment.config.keep * len(spreads)))
    return np.array(spreads >= np.sort(spreads)[-kept], np.float64)
