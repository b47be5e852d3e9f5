"""How well a player does over many games: percentiles of its normalised scores (XLand, arXiv 2107.12808).

Games differ in what can be scored in them, so a score counts as a share of the best that anybody of the population has
reached there. A mean over games would hide those that were never learned; the lower percentiles are those.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

PERCENTILES = (10, 20, 30, 40, 50)


def normalised(score: float, best: float) -> float:
    """Return a score as a share of the best one; 1 where nobody has scored, as nobody is better."""
    return score / best if best > 0.0 else 1.0


def percentiles(normalised_by_game: Mapping[str, float]) -> dict[int, float]:
    """Return each of ``PERCENTILES`` of normalised scores over games, between two games linearly."""
    values = np.percentile(list(normalised_by_game.values()), PERCENTILES)
    return dict(zip(PERCENTILES, values.tolist(), strict=True))
