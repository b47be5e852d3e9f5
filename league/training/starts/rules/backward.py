"""An expert's matches from their end backwards (Salimans and Chen 2018; R3, Xi et al. 2024; Agent-RLVR, 2025).

The first start of an expert's match leaves one action to play. One that is mastered is followed by its child, with an
action less in the prefix, until nothing of the expert is left. Only the last start of each such line is played.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.training.starts.measured import StoredStart
from league.training.starts.rules.moment import Moment


def backward(starts: Sequence[StoredStart], _moment: Moment) -> NDArray[np.float64]:
    """Return 1 for each start without a child, else 0 [N]."""
    parents = {one.parent for one in starts}
    return np.array([one.name not in parents for one in starts], np.float64)


def children(starts: Sequence[StoredStart], mastered: float, iteration: int) -> list[StoredStart]:
    """Return the starts, born in an iteration, that follow those which are mastered and have no child yet."""
    parents = {one.parent for one in starts}
    return [
        StoredStart(
            one.start._replace(prefix=one.start.prefix[:-1]),
            size=one.size + 1,
            parent=one.name,
            author=one.author,
            born=iteration,
        )
        for one in starts
        if one.start.prefix and one.plays and one.rate >= mastered and one.name not in parents
    ]
