"""Ad-hoc teamwork: a snapshot's return with partners that it never met, compared with its return with itself.

The problem is from Stone et al. 2010 ("Ad hoc autonomous agent teams: collaboration without pre-coordination"). The
strangers are partners that are held out of training (``policies.NAME.held_out``), as they are now. The score is

    J(player, strangers) / J(player, player),

where J is the player's mean return over seatings and strangers. It is 1 if strangers are as good as oneself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.spec import GameSpec
from league.config.load import seat_roles
from league.lab.standings.payoff_matrix import PayoffMatrix
from league.population.storage.population import newest_strangers
from league.population.storage.run_dir import STATE_FOLDER, Run


class Teamwork(NamedTuple):
    """One snapshot's ad-hoc teamwork in one game."""

    player: str
    strangers: tuple[str, ...]  # that it has met
    with_strangers: float  # mean return, in the game's units
    with_itself: float | None  # None: not measured
    exact: bool  # by enumeration; False: by matches

    @property
    def score(self) -> float | None:
        """Its return with strangers as a share of its return with itself; None unless the latter is above 0."""
        return self.with_strangers / self.with_itself if self.with_itself and self.with_itself > 0.0 else None

    def document(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {**self._asdict(), "score": self.score}


def run_teamwork(run: Run, spec: GameSpec, matrix: PayoffMatrix | None) -> list[Teamwork]:
    """Return the teamwork of a run's main snapshots, oldest first; none without strangers.

    It is exact in games of two whose policies were tabulated, otherwise from the ``matrix`` of matches.
    """
    snapshots = run.population.all()
    mains = [snapshot.id for snapshot in snapshots if snapshot.policy not in run.config.league_roles]
    strangers = newest_strangers(run.config, spec, snapshots)
    if not strangers:
        return []
    returns = _exact_returns(run, spec, [*mains, *strangers])
    if returns is not None:
        return teamwork([*mains, *strangers], returns, mains, strangers, exact=True)
    return [] if matrix is None else teamwork(matrix.players, matrix.returns, mains, strangers)


def teamwork(
    players: Sequence[str],
    returns: NDArray[np.float64],
    mains: Sequence[str],
    strangers: Sequence[str],
    exact: bool = False,
) -> list[Teamwork]:
    """Return the teamwork of ``mains`` that met a stranger, from row's mean returns with column [N, N] or nan."""
    index = {player: row for row, player in enumerate(players)}
    rows = []
    for player in mains:
        met = [other for other in strangers if {player, other} <= index.keys()]
        met = [other for other in met if np.isfinite(returns[index[player], index[other]])]
        if met:
            mean = float(np.mean([returns[index[player], index[other]] for other in met]))
            alone = float(returns[index[player], index[player]])
            rows.append(Teamwork(player, tuple(met), mean, alone if np.isfinite(alone) else None, exact))
    return rows


def _exact_returns(run: Run, spec: GameSpec, players: Sequence[str]) -> NDArray[np.float64] | None:
    """Return row's mean return with column over both seatings [N, N]; None where a player has no table."""
    from league.population.evaluation.policy_tables import PolicyTables
    from league.theory.exact.equilibrium_gaps import exact_game

    if spec.seats != 2 or any(role.fixed for role in seat_roles(run.config.roles, spec)):
        return None
    tables = PolicyTables(run.path / STATE_FOLDER / "tables", run.config.evaluation.exact_limit)
    stored = [table for player in players if (table := tables.stored((player, player), spec)) is not None]
    if len(stored) < len(players):
        return None
    first, second = exact_game([stored] * 2).values
    return np.asarray((first + second.T) / 2.0)
