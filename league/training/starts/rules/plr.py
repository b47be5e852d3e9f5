"""Prioritised level replay (Jiang et al. 2021, PLR): starts from which much is still to be learned, and stale ones.

A start has a score S: "value_loss", the mean distance of a match from the mean before it, which is the L1 value loss
with that mean as the value, 2p(1 - p) of a 0/1 task; or "regret", the best match so far less the mean (MaxMC; Jiang et
al. 2021, "Replay-guided adversarial environment design"), 1 - p of a task that was ever solved. Ranked by it, 1 for the
largest, equal scores sharing their mean rank,

    P = (1 - rho) P_S + rho P_C

where P_S is proportional to (1 / rank) ** (1 / beta) and P_C to the iterations since a start's last match, with
beta = ``temperature`` and rho = ``staleness``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.training.starts.measured import StoredStart
from league.training.starts.rules.moment import Moment

EQUAL_DIGITS = 12  # to which scores must agree to be equal


def plr(starts: Sequence[StoredStart], moment: Moment) -> NDArray[np.float64]:
    """Return the probability of each start [N]; it may be played at once, so staleness counts from 0."""
    config = moment.config
    surprise = np.array([one.surprise for one in starts], np.float64)
    regret = np.array([one.best - one.rate for one in starts], np.float64)
    by_score = _shares(
        (1.0 / ranks(surprise if config.score == "value_loss" else regret)) ** (1.0 / config.temperature)
    )
    stale = _shares(np.array([moment.iteration - 1 - one.last for one in starts], np.float64))
    return (1.0 - config.staleness) * by_score + config.staleness * stale


def ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each score [N], 1 for the largest; equal ones, up to rounding, share the mean of theirs."""
    falling = -np.round(scores, EQUAL_DIGITS)
    ordered = np.sort(falling)
    first, last = np.searchsorted(ordered, falling, "left"), np.searchsorted(ordered, falling, "right")
    return (first + last + 1) / 2


def _shares(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1.0 / max(len(weights), 1))
