"""Learnability: starts that are sometimes solved and sometimes not.

The weight is p (1 - p) with the solve rate p: the variance of a 0/1 outcome, and what one step of REINFORCE can gain
(Tzannetos et al. 2023, ProCuRL; Rutherford et al. 2024, "No Regrets", sampling for learnability).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.training.starts.measured import StoredStart
from league.training.starts.rules.moment import Moment


def learnability(starts: Sequence[StoredStart], _moment: Moment) -> NDArray[np.float64]:
    """Return p (1 - p) of each start [N]."""
    rates = np.array([one.rate for one in starts], np.float64)
    return rates * (1.0 - rates)
