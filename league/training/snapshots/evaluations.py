"""Evaluations of a game's snapshots after each freeze, by name: the family "evaluations".

An evaluation is ``measure(measured) -> metrics``, logged as ``GAME/KEY``. One that needs ``TABLES`` is called only in
games that are small enough to have them; the others in every game of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from arena.records import Episode, MatchRequest
from games.common.registry import Entry, Registry
from games.spec import GameSpec
from league.config.context import RunContext
from league.population.evaluation.meta_game import MetaGame, joint_metrics, mixture_metrics
from league.population.evaluation.policy_tables import Profile, exact_metrics, is_tabular
from league.population.evaluation.public_policy import public_values
from league.population.evaluation.strategies import GameStrategy, strategy_metrics
from league.population.players.player import Player
from league.population.storage.members import MetaStrategy
from league.population.storage.population import Snapshot
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.regret import snapshot_regrets
from league.theory.exact.sequence_form import SequenceForm
from league.theory.public.from_openspiel import large_game

Metrics = dict[str, float]
TABLES = "tables"  # a need: the exact policy tables of all snapshots


class Measured(NamedTuple):
    """A game's snapshots, and what is known about them."""

    context: RunContext
    spec: GameSpec
    iteration: int
    snapshots: Sequence[Snapshot]  # the whole population, oldest first
    line_ups: Sequence[Profile]  # the main policies' snapshots by seat, one for each freeze, the newest last
    tables: Mapping[Profile, PolicyTable]  # of all line-ups, exploiters' too; empty in a game that is too large
    mixed_game: MetaGame  # the game that the mixture was solved from
    mixture: Sequence[Mapping[str, float]]  # RUN@mixture: each snapshot's weight, by seat
    meta_game: MetaGame  # the game that the meta-strategy was solved from
    meta: MetaStrategy
    strategy: GameStrategy | None  # of the main policies over their line-ups, where there are tables
    newest: Callable[[], Player]  # the newest line-up
    play: Callable[[Sequence[MatchRequest]], list[Episode]]  # with the current weights; its matches are not recorded

    @property
    def free_seats(self) -> list[int]:
        """The seats without a fixed player."""
        return [role.seat for role in self.context.roles[self.spec.name] if not role.fixed]


def _exact(measured: Measured) -> Metrics:
    """Exploitability, values and returns of the newest snapshots, exactly."""
    return exact_metrics(measured.spec, measured.tables[measured.line_ups[-1]], measured.free_seats)


def _large(measured: Measured) -> Metrics:
    """Exploitability of the newest snapshots in a large game, exactly, every ``large_every`` freezes."""
    config = measured.context.config.evaluation
    if not config.exact or not config.large_every or measured.tables:
        return {}
    if (len(measured.line_ups) - 1) % config.large_every:
        return {}
    game, player = large_game(measured.spec.name), measured.newest()
    if game is None or not all(is_tabular(player, role) for role in player.roles):
        return {}
    found = public_values(player, game, lambda asked: None)
    gains = [found.best_responses[seat] - found.values[seat] for seat in measured.free_seats]
    return {"exploitability": sum(gains) / len(gains), "first_seat_value": found.values[0]}


def _mixture(measured: Measured) -> Metrics:
    """Exploitability of the population's mixture, exactly."""
    return mixture_metrics(measured.spec, measured.mixed_game, measured.mixture, measured.free_seats)


def _joint(measured: Measured) -> Metrics:
    """Gaps of the correlated equilibrium that training plays against."""
    return joint_metrics(measured.meta_game, measured.meta)


def _strategy(measured: Measured) -> Metrics:
    """Choice probabilities of the newest snapshots at single information states."""
    if measured.strategy is None:
        return {}
    newest = measured.tables[measured.line_ups[-1]]
    return strategy_metrics(measured.spec.name, measured.strategy.states, newest)


def _regret(measured: Measured) -> Metrics:
    """Regret of the snapshots so far, summed over seats, where recall is perfect."""
    form = exact_form(measured.spec.name)
    if not isinstance(form, SequenceForm):
        return {}
    return {"snapshot_regret": sum(snapshot_regrets(form, [measured.tables[p] for p in measured.line_ups]))}


_TABLES = frozenset({TABLES})
EVALUATIONS: Registry[Entry[Callable[[Measured], Metrics]]] = Registry(
    "evaluations",
    "evaluation",
    Entry,
    "plugins",
    {
        "exact": Entry(_exact, needs=_TABLES),
        "mixture": Entry(_mixture, needs=_TABLES),
        "joint": Entry(_joint, needs=_TABLES),
        "strategy": Entry(_strategy, needs=_TABLES),
        "regret": Entry(_regret, needs=_TABLES),
        "large": Entry(_large),
    },
)
register = EVALUATIONS.register


def evaluate(measured: Measured) -> Metrics:
    """Return the metrics of all evaluations, ours and those of plugins that are loaded."""
    metrics: Metrics = {}
    for evaluation in EVALUATIONS.loaded().values():
        if measured.tables or TABLES not in evaluation.needs:
            metrics |= evaluation.make(measured)
    return metrics
