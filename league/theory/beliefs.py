"""A seat's exact belief about the type it plays with, and the best response to a belief, in two-seat games.

The other seat is played by one of K types, whose policies are known. One is drawn for each match, type k with prior
probability w_k. Let c(z) be the probability of chance's moves on the way to terminal z, and x_k(z) the probability of
type k's moves. At its information state I the seat then believes, by Bayes' rule,

    b_k(I) ∝ w_k ρ_k(I),  ρ_k(I) = Σ of c(z) x_k(z) over the z below I that one continuation of the seat's leads to,

and its own moves cancel out. With G_k(a) = Σ of c(z) x_k(z) u(z) over the z below I and its action a, if it continues
as planned, the best response to the belief plays the a that maximises Σ_k b_k(I) G_k(a) / ρ_k(I), from the last
states to the first. For the exact belief this is a best response to the mixture of the types, which no policy that does
not know the type can beat, whether the other is an opponent or a partner (Carmel and Markovitch 1999, "Exploration
strategies for model-based learning in multi-agent systems"; Barrett et al. 2017, "Making friends on the fly").

At states that no type can lead to (a stranger sits there), types are assumed to err now and then: every table is mixed
with a little uniform play. No reported value depends on this, as these types never lead to such states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from games.registry import make_game
from league.theory.exact.equilibrium_gaps import seat_reach
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.position_graph import PositionGraph
from league.theory.exact.sequence_form import TIE, SequenceForm
from league.theory.exact.states import Key

Floats = NDArray[np.float64]
Beliefs = Mapping[Key, Sequence[float]]  # the probability of each type at each information state of a seat  # [K]

ERRORS = 1e-3  # the share of uniform play mixed into the types for states that none of them can lead to


class BeliefResponse(NamedTuple):
    """The best response to a belief in one seat."""

    table: PolicyTable  # the seat's rows only; it plays one action everywhere
    values: tuple[float, ...]  # the seat's expected return with each type, in the game's units  # [K]


class _Sums(NamedTuple):
    """Sums over the terminals behind each sequence of a seat, by type."""

    reach: Floats  # of c x_k  # [Q, K]
    gains: Floats  # of c x_k u  # [Q, K]


def exact_beliefs(types: Sequence[PolicyTable], seat: int, prior: Sequence[float]) -> dict[Key, tuple[float, ...]]:
    """Return the posterior probabilities of the types at every information state of ``seat``.

    Raises UsageError for a game of other than two seats or that cannot be enumerated, ValueError for a prior that is
    not a distribution over the types.
    """
    form, weights = two_seat_form(types[0].game), _distribution(prior, len(types))
    surely, perhaps = (_summed(form, seat, some).reach for some in (types, _erring(types)))
    beliefs = {}
    for index in _own(form, seat):
        joint = weights * surely[form.first[index]]
        if not joint.sum() > 0.0:
            joint = weights * perhaps[form.first[index]]
        for reach in (surely, perhaps):
            reach[form.parent[index]] += reach[form.first[index]]
        beliefs[form.keys[index]] = tuple((joint / joint.sum()).tolist())
    return beliefs


def best_response_to(types: Sequence[PolicyTable], seat: int, beliefs: Beliefs) -> BeliefResponse:
    """Return the best response of ``seat`` to its beliefs at each of its information states.

    ``beliefs`` need not be Bayes': a probe's may be wrong. Probability given to types that cannot lead to the state
    is ignored. Raises as ``exact_beliefs``.
    """
    form = two_seat_form(types[0].game)
    surely, perhaps = (_summed(form, seat, some) for some in (types, _erring(types)))
    rows = {}
    for index in _own(form, seat):
        key, actions = form.keys[index], slice(form.first[index], form.first[index] + len(form.legal[index]))
        belief = np.asarray(beliefs[key], np.float64)
        sums = surely if (belief[surely.reach[actions.start] > 0.0] > 0.0).any() else perhaps
        best = _best(sums.gains[actions], sums.reach[actions.start], belief)
        rows[key] = tuple(np.eye(len(form.legal[index]))[best].tolist())
        for sums in (surely, perhaps):
            sums.gains[form.parent[index]] += sums.gains[actions.start + best]
            sums.reach[form.parent[index]] += sums.reach[actions.start]
    return BeliefResponse(PolicyTable(form.game, rows), tuple(surely.gains[seat].tolist()))


def _best(gains: Floats, reach: Floats, belief: Floats) -> int:
    """Return the best action under the belief; among actions equal up to rounding, the first."""
    possible = (reach > 0.0) & (belief > 0.0)
    values = (gains[:, possible] / reach[possible]) @ (belief[possible] / belief[possible].sum())
    return int(np.flatnonzero(values >= values.max() - TIE)[0])


def two_seat_form(game: str) -> SequenceForm:
    """Return the enumerated game of two seats.

    Raises UsageError unless it has two seats, for a game that is enumerated as boards, or one that is too large.
    """
    if (seats := make_game(game).spec.seats) != 2:
        raise UsageError(f"Beliefs about the opponent are for games of two seats; {game} has {seats}.")
    form = exact_form(game)
    if isinstance(form, PositionGraph):
        raise UsageError(
            f"Beliefs about the opponent in {game} are not computed: its positions are enumerated as "
            "boards, which do not show which moves came before. Take a game with hidden information or a repeated one."
        )
    return form


def _own(form: SequenceForm, seat: int) -> list[int]:
    """Return the indices of a seat's information states, from the last to the first."""
    return [index for index in range(len(form.keys) - 1, -1, -1) if form.keys[index][0] == seat]


def _summed(form: SequenceForm, seat: int, types: Sequence[PolicyTable]) -> _Sums:
    """Return the sums over the terminals whose last sequence of the seat it is."""
    weights = form.chance * seat_reach(form, 1 - seat, types)  # [K, Z]
    reach, gains = np.zeros((form.sequences, len(types))), np.zeros((form.sequences, len(types)))
    np.add.at(reach, form.last[:, seat], weights.T)
    np.add.at(gains, form.last[:, seat], (weights * form.returns[:, seat]).T)
    return _Sums(reach, gains)


def _erring(types: Sequence[PolicyTable]) -> list[PolicyTable]:
    """Return the types' play when they err now and then."""
    return [
        PolicyTable(
            table.game,
            {
                key: tuple([(1.0 - ERRORS) * p + ERRORS / len(row) for p in row])
                for key, row in table.probabilities.items()
            },
        )
        for table in types
    ]


def _distribution(prior: Sequence[float], types: int) -> Floats:
    """Return the prior as an array. Raises ValueError for anything but a distribution over the types."""
    weights = np.asarray(prior, np.float64)
    if weights.shape != (types,) or weights.min() < 0.0 or abs(float(weights.sum()) - 1.0) > 1e-9:
        raise ValueError(f"expected a distribution over {types} types, got {list(prior)}")
    return weights
