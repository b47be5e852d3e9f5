"""Exact standings of a run's snapshots, where their policies were tabulated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.spec import GameSpec, Utility
from league.config.load import seat_roles
from league.population.storage.run_dir import STATE_FOLDER, Run
from league.theory.cycles import Cycle, find_cycles
from league.theory.solvers import NashAverage
from league.theory.solvers.double_oracle import nash_average_of_many
from league.theory.solvers.empirical_game import largest, without_rounding


class ExactStandings(NamedTuple):
    """The snapshots' exact payoffs, Nash averages and cycles."""

    players: tuple[str, ...]  # oldest first  # [N]
    margin: NDArray[np.float64]  # row's mean return against column over both seatings, in the game's units  # [N, N]
    average: NashAverage
    cycles: list[Cycle]

    def document(self) -> dict[str, Any]:
        """Return the standings as JSON data."""
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
    from league.population.evaluation.policy_tables import PolicyTables
    from league.theory.exact.equilibrium_gaps import exact_game

    config = run.config
    roles = seat_roles(config.roles, spec)
    policies = {role.policy for role in roles} | set(config.league_roles)
    if spec.seats != 2 or spec.utility is not Utility.ZERO_SUM or len({role.policy for role in roles}) > 1:
        return None
    tables = PolicyTables(run.path / STATE_FOLDER / "tables", config.evaluation.exact_limit)
    players = [snapshot.id for snapshot in run.population.all() if snapshot.policy in policies]
    tabulated = {player: table for player in players if (table := tables.stored((player, player), spec)) is not None}
    if len(tabulated) < 2:
        return None
    first, second = exact_game([list(tabulated.values())] * 2).values
    margin = without_rounding((first + second.T) / 2.0, largest(first))
    cycles = find_cycles(list(tabulated), margin)
    return ExactStandings(tuple(tabulated), margin, nash_average_of_many(margin), cycles)
