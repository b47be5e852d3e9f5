"""Meta-solvers by name: from payoffs among a population's players to the mixture, or line-ups, to train against.

A meta-solver takes the empirical payoff matrix [N, N] of a symmetric two-player meta-game, snapshots oldest first;
ours read it as zero-sum, (P - P') / 2, and a pair that never met as tied. A joint solver takes an ``EmpiricalGame`` of
any number of players. Plugins add their own by ``league.register_meta_solver`` and ``register_joint_solver``; one with
settings takes its table, ``meta_solvers.NAME`` or ``joint_solvers.NAME``, as the argument ``settings``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from games.common.registry import Entry, Registry
from games.common.section import Section
from league.theory.solvers import (
    EmpiricalGame,
    Joint,
    Matrix,
    Mixture,
    alpha_rank,
    alpha_rank_mixture,
    linear,
    mecce,
    mece,
    mgcce,
    mgce,
    nash,
    nash_averaging,
    prd,
    projected_replicator_dynamics,
    uniform,
    zero_sum_nash,
)
from league.theory.solvers.double_oracle import nash_average_of_many, nash_of_many
from league.theory.solvers.empirical_game import largest

if TYPE_CHECKING:
    from league.theory.exact.equilibrium_gaps import Tables


@dataclass(frozen=True, slots=True)
class MetaSolver(Entry[Callable[..., Mixture]]):
    """A meta-solver; ``make(payoffs)`` returns a mixture [N]."""

    by_age: bool = False  # it reads only the number of players, not payoffs
    # For seats with different strategies: a mixture by seat; None: it solves symmetric meta-games only.
    by_seat: Callable[[EmpiricalGame], Sequence[Mixture]] | None = None
    zero_sum: bool = False  # ``by_seat`` solves only zero-sum games of two seats
    # A mixture by seat, from a game's name and the players' tables; None for a game where it cannot be computed.
    by_tables: Callable[[str, Tables], Sequence[Mixture] | None] | None = None
    of_many: Callable[[Matrix], Mixture] | None = None  # for thousands of players, where ``make`` would take minutes


@dataclass(frozen=True, slots=True)
class JointSolver(Entry[Callable[..., Joint]]):
    """A joint solver; ``make(game)`` returns a distribution over line-ups [n_1, …, n_P]."""

    advises: bool = False  # its mediator recommends a strategy to each player (CE), not one joint plan to all (CCE)


def nash_by_seat(game: EmpiricalGame) -> Sequence[Mixture]:
    """Return each seat's maximin mixture; line-ups that never met count as the mean."""
    return zero_sum_nash(game, missing="mean")


def prd_by_seat(game: EmpiricalGame) -> Sequence[Mixture]:
    """Return each seat's average in projected replicator dynamics; line-ups that never met count as the mean."""
    scaled = EmpiricalGame(game.values / largest(np.nan_to_num(game.values)))  # its steps are in units of 1 / payoff
    return projected_replicator_dynamics(scaled, missing="mean")


def least_exploitable_by_tables(game: str, tables_PN: Tables) -> Sequence[Mixture] | None:
    """Return, by seat, the mixture against which a best response gains least; None where it cannot be computed."""
    from league.theory.exact.least_exploitable import least_exploitable, supports_least_exploitable

    if not supports_least_exploitable(game):
        return None
    return [least_exploitable(tables_PN, seat)[0] for seat in range(len(tables_PN))]


META_SOLVERS: Registry[MetaSolver] = Registry(
    "meta_solvers",
    "meta-strategy",
    MetaSolver,
    "evaluation.mixture, or matchmaking.psro_solver",
    {
        "uniform": MetaSolver(uniform, by_age=True),
        "linear": MetaSolver(linear, by_age=True),
        "nash": MetaSolver(nash, by_seat=nash_by_seat, zero_sum=True, of_many=nash_of_many),
        "prd": MetaSolver(prd, by_seat=prd_by_seat),
        "alpha_rank": MetaSolver(alpha_rank_mixture),
        "nash_averaging": MetaSolver(nash_averaging, of_many=lambda payoffs: nash_average_of_many(payoffs).mixture),
        "least_exploitable": MetaSolver(
            nash,  # where the game is too large for tables
            by_seat=nash_by_seat,
            zero_sum=True,
            by_tables=least_exploitable_by_tables,
            of_many=nash_of_many,
            description="The mixture against which a best response in the full game gains least",
        ),
    },
)
JOINT_SOLVERS: Registry[JointSolver] = Registry(
    "joint_solvers",
    "joint meta-strategy",
    JointSolver,
    "matchmaking.jpsro_solver",
    {
        "mgcce": JointSolver(mgcce),
        "mgce": JointSolver(mgce, advises=True),
        "mecce": JointSolver(mecce),
        "mece": JointSolver(mece, advises=True),
        "alpha_rank": JointSolver(alpha_rank),
    },
)
register_meta_solver, register_joint_solver = META_SOLVERS.register, JOINT_SOLVERS.register


def with_settings(entry: Any, settings: Section | None) -> Any:
    """Return a solver whose ``make`` needs no settings: the given ones, or its defaults, are bound."""
    if not entry.settings.model_fields:
        return entry
    return replace(entry, make=partial(entry.make, settings=settings or entry.settings()))
