"""Who beats whom in a population, and whether it cycles: exactly where there are tables, otherwise from matches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.spec import GameSpec, Utility
from league.config import RunConfig
from league.config.context import RunContext
from league.population.results.payoffs import PayoffTable
from league.theory.cycles import Cycle, find_cycles, significant_wins
from league.theory.exact.equilibrium_gaps import exact_game
from league.theory.exact.exploitability import PolicyTable, uniform_table
from league.theory.statistics import Z_95
from league.training.checkpoints.run_state import RunState
from league.training.monitors.alarm import Win
from league.training.monitors.strategy_alarms import WIN
from league.training.snapshots.measure import PopulationMeasurement

MOST_COMPARED = 40  # players of a game, for cycles
ROUNDING = 1e-9  # of half a game's range: less is not a win
MOST_SHOWN = 7  # players of a game, in figures


class Comparison(NamedTuple):
    """The players of one game against each other."""

    game: str
    players: tuple[str, ...]  # anchors, main policies' snapshots by step, then each exploiter's  # [N]
    means: NDArray[np.float64]  # row's mean return against column; nan: never met  # [N, N]
    errors: NDArray[np.float64] | None  # standard errors; None: exact  # [N, N]
    cycles: list[Cycle]  # in which every win matters, the shortest first
    half_range: float  # of the game's returns
    slight: Sequence[Cycle] = ()  # cycles of significant wins, if there is none in which every win matters
    left_out: int = 0  # players of the population that were not compared

    def clearest(self) -> Cycle | None:
        """Return the cycle whose narrowest win is the widest: of those that matter, or else of the slight ones."""
        return max(self.cycles or self.slight, key=lambda cycle: cycle.margin, default=None)

    def unmet(self) -> tuple[int, int]:
        """Return how many pairs of the players never met, and how many pairs there are."""
        pairs = np.triu_indices(len(self.players), 1)
        return int(np.isnan(self.means[pairs]).sum()), len(pairs[0])

    def wins(self) -> list[Win]:
        """Return the cycles in the form that alarms judge."""
        return [Win(self.game, cycle.players, cycle.margin / self.half_range) for cycle in self.cycles]

    def shown(self) -> list[int]:
        """Return the players that a figure has room for: those on the clearest cycle, and others evenly spaced."""
        clearest = self.clearest()
        on_cycle = [self.players.index(player) for player in (clearest.players if clearest else ())]
        chosen = set(on_cycle[:MOST_SHOWN])
        others = [index for index in range(len(self.players)) if index not in chosen]
        return sorted(chosen | {others[i] for i in spread(len(others), MOST_SHOWN - len(chosen))})

    def beats(self, chosen: Sequence[int]) -> NDArray[np.bool_]:
        """Return which of some players significantly beat which."""
        index = np.ix_(chosen, chosen)
        return significant_wins(
            _rounded(self.means, self.half_range)[index], None if self.errors is None else self.errors[index], 0.95
        )[0]


def spread(count: int, most: int) -> list[int]:
    """Return at most ``most`` indices below ``count``, evenly spaced, with the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)}) if most > 1 else [count - 1][:most]


def compare_population(context: RunContext, state: RunState, measured: PopulationMeasurement) -> dict[str, Comparison]:
    """Return the comparison of each game that can be won, by game."""
    config, comparisons = context.config, {}
    for game, spec in context.specs.items():
        free = sum(not role.fixed for role in context.roles[game])  # seats without a fixed player
        if free > 1 and spec.utility is not Utility.IDENTICAL:
            tables = measured.tables.get(game)
            if tables and spec.seats == 2:
                named = {"+".join(dict.fromkeys(profile)): table for profile, table in tables.items()}
                players, means = _exact(config, game, _by_policy(config, named, state))
                compared = _compared(config, spec, players, means, None)
                comparisons[game] = compared._replace(left_out=max(len(named) - MOST_COMPARED, 0))
            else:
                snapshots = [s for s in state.population.all() if s.id not in state.retired]
                ids = [s.id for s in sorted(snapshots, key=lambda s: (s.policy in config.league_roles, s.policy))]
                players = [*config.evaluation.anchors, *[ids[i] for i in spread(len(ids), MOST_COMPARED)]]
                means, errors = matched(state.payoffs, players, game)
                compared = _compared(config, spec, players, means, errors)
                comparisons[game] = compared._replace(left_out=max(len(ids) - MOST_COMPARED, 0))
    return comparisons


def _by_policy(config: RunConfig, named: dict[str, PolicyTable], state: RunState) -> dict[str, PolicyTable]:
    """Return the tables, main policies first, by policy and newest snapshot; evenly spaced if too many."""
    snapshot_of = {snapshot.id: snapshot for snapshot in state.population.all()}

    def order(name: str) -> tuple[bool, str, int]:
        members = [snapshot_of[player] for player in name.split("+")]
        first = members[0].policy
        exploits = first in config.league_roles
        return exploits, first if exploits else "", max(snapshot.step for snapshot in members)

    names = sorted(named, key=order)
    return {names[i]: named[names[i]] for i in spread(len(names), MOST_COMPARED)}


def _exact(config: RunConfig, game: str, tables: dict[str, PolicyTable]) -> tuple[list[str], NDArray[np.float64]]:
    """Return the players, with the anchor that plays at random, and their exact mean returns over both seatings."""
    anchors = {"random": uniform_table(game)} if "random" in config.evaluation.anchors else {}
    seated = list((anchors | tables).values())
    first, second = exact_game([seated, seated]).values
    return list(anchors | tables), np.asarray((first + second.T) / 2.0)


def matched(payoffs: PayoffTable, players: Sequence[str], game: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return row's mean return against column over roles, and its standard error, nan where it is not known [N, N]."""
    means, errors = (np.full((len(players), len(players)), np.nan) for _ in range(2))
    for i, player in enumerate(players):
        for j, opponent in enumerate(players):
            records = list(payoffs.role_records(player, opponent, game).values()) if i != j else []
            if records:
                means[i, j] = math.fsum(record.returns.mean for record in records) / len(records)
                halves = [
                    math.nan if record.returns.high is None else record.returns.high - record.returns.mean
                    for record in records
                ]
                errors[i, j] = math.sqrt(math.fsum(half * half for half in halves)) / len(records) / Z_95
    return means, errors


def _compared(
    config: RunConfig,
    spec: GameSpec,
    players: Sequence[str],
    means: NDArray[np.float64],
    errors: NDArray[np.float64] | None,
) -> Comparison:
    """Return the comparison with the cycles of wins that matter, as the alarm ``cycle`` defines."""
    half_range = (spec.max_return - spec.min_return) / 2
    small = np.abs(means - means.T) / 2 < config.alarms.most(WIN) * half_range
    cycles = find_cycles(players, np.where(small, (means + means.T) / 2, means), errors)
    slight = [] if cycles else find_cycles(players, _rounded(means, half_range), errors)
    return Comparison(spec.name, tuple(players), means, errors, cycles, half_range, slight)


def _rounded(means: NDArray[np.float64], half_range: float) -> NDArray[np.float64]:
    """Return means without wins that are only rounding errors."""
    return np.where(np.abs(means) < ROUNDING * half_range, 0.0, means)
