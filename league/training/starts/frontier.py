"""Where a player's frontier is: which of the starts it played are solved, possible and out of reach."""

from __future__ import annotations

from collections.abc import Sequence

from league.training.starts.measured import StoredStart

Metrics = dict[str, float]
SOLVED, OUT_OF_REACH = 0.9, 0.1  # solve rates from, and up to, which a start counts as such


def bands(starts: Sequence[StoredStart]) -> dict[str, list[StoredStart]]:
    """Return the starts that were played, by band."""
    by_band: dict[str, list[StoredStart]] = {"solved": [], "possible": [], "out_of_reach": []}
    for start in starts:
        if start.plays:
            band = "solved" if start.rate >= SOLVED else "out_of_reach" if start.rate <= OUT_OF_REACH else "possible"
            by_band[band].append(start)
    return by_band


def frontier(game: str, starts: Sequence[StoredStart]) -> Metrics:
    """Return how many starts are solved, possible and out of reach, as shares of those played, and their size."""
    by_band = bands(starts)
    played = sum(map(len, by_band.values()))
    if not played:
        return {}
    metrics = {"played": played / len(starts)} | {name: len(group) / played for name, group in by_band.items()}
    if possible := by_band["possible"]:
        metrics["frontier"] = sum(start.size for start in possible) / len(possible)
    return {f"{game}/starts/{name}": value for name, value in metrics.items()}
