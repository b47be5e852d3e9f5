"""A run's snapshots against each other, exactly, where their policies were tabulated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.spec import GameSpec, Utility
from league.cycles import Cycle, find_cycles
from league.meta_solvers import NashAverage
from league.meta_solvers.double_oracle import nash_average_of_many
from league.runs import STATE_FOLDER, Run
from league.settings import seat_roles


class ExactStandings(NamedTuple):
    """How the snapshots fare, counted out."""

    players: tuple[str, ...]  # oldest first  # [N]
    margin: NDArray[np.float64]  # row's mean return against column over both seatings, in the game's units  # [N, N]
    average: NashAverage
    cycles: list[Cycle]

    def document(self) -> dict[str, Any]:
        """Return all of it as JSON data."""
        return {
            "players": list(self.players),
            "margin": self.margin.tolist(),
            "ratings": self.average.ratings.tolist(),
            "weights": self.average.mixture.tolist(),
            "cycles": [{"players": list(cycle.players), "margin": cycle.margin} for cycle in self.cycles],
        }


def exact_standings(run: Run, spec: GameSpec) -> ExactStandings | None:
    """Return the exact standings of a zero-sum game of two whose seats one policy plays.

    None for other games, and where fewer than two snapshots have a table.
    """
    from league.evaluation import Tables  # OpenSpiel is slow to import
    from league.joint import exact_game

    config = run.config
    roles = seat_roles(config.roles, spec)
    alone = {role.policy for role in roles} | set(config.exploiter_kinds)
    if spec.seats != 2 or spec.utility is not Utility.ZERO_SUM or len({role.policy for role in roles}) > 1:
        return None
    tables = Tables(run.path / STATE_FOLDER / "tables", config.evaluation.exact_limit)
    able = [snapshot.id for snapshot in run.population.all() if snapshot.policy in alone]
    kept = {player: table for player in able if (table := tables.kept((player, player), spec)) is not None}
    if len(kept) < 2:
        return None
    first, second = exact_game([list(kept.values())] * 2).values
    margin = np.asarray((first + second.T) / 2.0)
    return ExactStandings(tuple(kept), margin, nash_average_of_many(margin), find_cycles(list(kept), margin))
