"""Longer matches as the run goes on (Xi et al. 2025, AgentGym-RL: ScalingInter-RL).

The sizes that starts have come in one by one, the smallest first and the largest when the share ``ramp`` of the
iterations is over; among the sizes that are in, all starts are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.training.starts.measured import StoredStart
from league.training.starts.rules.moment import Moment


def staged(starts: Sequence[StoredStart], moment: Moment) -> NDArray[np.float64]:
    """Return 1 for each start of a size that is in, else 0 [N]."""
    return np.array([one.size <= largest(starts, moment) for one in starts], np.float64)


def largest(starts: Sequence[StoredStart], moment: Moment) -> int:
    """Return the largest size that is in."""
    sizes = sorted({one.size for one in starts})
    ramp = moment.config.ramp * moment.iterations
    stage = len(sizes) * (moment.iteration - 1) // ramp if ramp else len(sizes)
    return sizes[min(int(stage), len(sizes) - 1)]
