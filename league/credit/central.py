"""The exact values that a critic which sees all seats would learn, of the turns of batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arena.records import Episode
from arena.submatches import positions
from games.registry import make_game
from games.spec import choice_game
from league.credit.matches import PlayedBatch
from league.exact.exploitability import PolicyTable
from league.exact.joint_values import JointKey, joint_values
from learners.trajectories import Evidence


def central_evidence(table: PolicyTable, scale: float, batches: Sequence[PlayedBatch]) -> list[list[Evidence]]:
    """Return the value of what all seats know together at each turn, less what its seat had been paid before.

    The table plays all seats; values are divided by ``scale``, as the trajectories' rewards are. Raises UsageError for
    a game that is too large.
    """
    values, found = joint_values(table), []
    for batch in batches:
        keys = {episode.request.index: joint_keys(table.game, episode) for episode in batch.episodes}
        rows = []
        for one in batch.trajectories:
            totals = np.array([values[keys[one.match][place]][one.seat] for place in one.order]) / scale
            paid = np.cumsum(one.rewards) - np.array(one.rewards)
            rows.append(Evidence(values=tuple((totals - paid).tolist())))
        found.append(rows)
    return found


def joint_keys(game: str, episode: Episode) -> list[JointKey]:
    """Return what all seats knew before each turn of a match, with the seat that was to act."""
    match = choice_game(make_game(game))
    seats = range(match.spec.seats)
    before = zip(positions(match, episode), episode.turns, strict=False)  # the last position has no turn
    return [(turn.seat, tuple([match.information_state(seat) for seat in seats])) for _, turn in before]
