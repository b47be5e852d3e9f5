"""Meta-solvers: from payoffs among a population's players to the mixture, or joint distribution, that represents it.

May import no other room of the league.

Pure functions, one solver or family a file; ``league.theory.meta_solvers`` has their names.
"""

from __future__ import annotations

from league.theory.solvers.alpha_rank import alpha_rank, alpha_rank_mixture, alpha_rank_population
from league.theory.solvers.by_age import linear, uniform
from league.theory.solvers.correlated import correlated_equilibrium, gaps, mecce, mece, mgcce, mgce
from league.theory.solvers.empirical_game import EmpiricalGame, Joint, Matrix, Mixture, antisymmetric, symmetric_game
from league.theory.solvers.nash import nash, zero_sum_nash
from league.theory.solvers.nash_averaging import NashAverage, nash_average, nash_averaging
from league.theory.solvers.replicator import prd, projected_replicator_dynamics

__all__ = [
    "EmpiricalGame",
    "Joint",
    "Matrix",
    "Mixture",
    "NashAverage",
    "alpha_rank",
    "alpha_rank_mixture",
    "alpha_rank_population",
    "antisymmetric",
    "correlated_equilibrium",
    "gaps",
    "linear",
    "mecce",
    "mece",
    "mgcce",
    "mgce",
    "nash",
    "nash_average",
    "nash_averaging",
    "prd",
    "projected_replicator_dynamics",
    "symmetric_game",
    "uniform",
    "zero_sum_nash",
]
