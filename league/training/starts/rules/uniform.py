"""All starts alike: what every other rule is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.training.starts.measured import StoredStart
from league.training.starts.rules.moment import Moment


def uniform(starts: Sequence[StoredStart], _moment: Moment) -> NDArray[np.float64]:
    """Return the weight 1 of each start [N]."""
    return np.ones(len(starts))
