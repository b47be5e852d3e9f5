"""Diversity of a population: its effective size and diversity, and the behavioural distance of two policies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.position_graph import PositionGraph
from league.theory.exact.sequence_form import SequenceForm
from league.theory.solvers import Matrix, antisymmetric, nash_averaging


def effective_size(mixture: NDArray[np.float64]) -> float:
    """Return exp(entropy) of a meta-strategy [N]: the number of equally weighted players with the same entropy.

    It is Hill's number of order 1 (Hill 1973, "Diversity and evenness"): between 1 and N.
    Raises ValueError for weights that are negative or do not sum to one.
    """
    if not (mixture.min() >= 0.0 and abs(mixture.sum() - 1.0) < 1e-6):
        raise ValueError(f"expected weights that sum to one, got {mixture.tolist()}")
    used = mixture[mixture > 0.0]
    return math.exp(-float(used @ np.log(used)))


def effective_diversity(payoffs: Matrix) -> float:
    """Return Σ_ij max(A_ij, 0) p_i p_j, in the payoffs' units, p the equilibrium of greatest entropy.

    "Open-ended learning in symmetric zero-sum games" (Balduzzi et al. 2019, arXiv 1901.08106): how much
    the best players exploit one another. It is 0 where one player beats all others, or all tie, and copies
    of a player never change it. A = (P - P') / 2; pairs that never met tie.
    """
    game = antisymmetric(payoffs)
    mixture = nash_averaging(payoffs)
    return float(mixture @ np.maximum(game, 0.0) @ mixture)


def behavioural_distance(first: PolicyTable, second: PolicyTable) -> tuple[float, ...]:
    """Return, by seat [S], how many decisions of a match two policies make differently.

    Σ over the seat's information states I of reach(I) TV(first(I), second(I)). TV, half the sum of
    absolute differences, is the least probability with which two draws can differ. reach(I) is the probability
    that a match reaches I, averaged over all seats following ``first`` and all following ``second``, so states
    that neither reaches do not count. Symmetric; 0 exactly if both play alike wherever either gets.
    Raises UsageError for tables of different games, and for board games, whose tree is not enumerated.
    """
    if first.game != second.game:
        raise UsageError(f"A distance needs two policies of one game; these play {first.game} and {second.game}.")
    form = exact_form(first.game)
    if isinstance(form, PositionGraph):
        raise UsageError(
            f"{first.game} is stored by positions, not by the moves to them, so how often play reaches one is unknown. "
            "Compare the policies by matches."
        )
    behaviours = [[table.probabilities[key] for key in form.keys] for table in (first, second)]
    reach = (_reach(form, behaviours[0]) + _reach(form, behaviours[1])) / 2.0
    distances = [0.0] * form.seats
    for key, weight, p_row, q_row in zip(form.keys, reach.tolist(), *behaviours, strict=True):
        distances[key[0]] += weight * math.fsum(abs(p - q) for p, q in zip(p_row, q_row, strict=True)) / 2.0
    return tuple(distances)


def _reach(form: SequenceForm, behaviour: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the probability that a match reaches each information state [I] when all follow ``behaviour``.

    Every match through I ends below one of I's actions, so terminals are summed from the last state to the first.
    """
    terminals = form.chance * form.plan(behaviour)[form.last].prod(axis=1)  # [Z]
    reach = np.zeros(len(form.keys))
    through = np.bincount(form.last.ravel(), np.repeat(terminals, form.seats), form.sequences)  # [Q]
    for index in range(len(form.keys) - 1, -1, -1):
        start = form.first[index]
        reach[index] = through[start : start + len(form.legal[index])].sum()
        through[form.parent[index]] += reach[index]
    return reach
