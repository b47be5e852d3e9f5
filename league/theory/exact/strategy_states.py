"""The information states at which a game's strategy is shown, and what equilibria play there.

Kuhn poker has names for what matters (Kuhn 1950, "A simplified two-person poker"): its equilibria are a family with
one parameter α in [0, 1/3]. The first player bets the jack with α, the king with 3α, never the queen, and calls with
the queen with α + 1/3; the second player bets the jack after a pass with 1/3, and calls with the queen with 1/3. In any
other game with policy tables, the states shown are those where the population has lost most by visit times regret
(``league.theory.exact.regret``), with one equilibrium from the linear program, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from games.spec import GameSpec
from league.theory.exact.exploitability import PolicyTable, exact_form, information_positions
from league.theory.exact.game_value import nash_equilibrium
from league.theory.exact.sequence_form import SequenceForm
from league.theory.exact.states import Key

SHOWN = 6  # information states
LONGEST_NAME = 60  # characters
_NOT_IN_TAGS = re.compile(r"[^-\w.]+")


class ShownAction(NamedTuple):
    """One action of a shown information state, and the least and greatest probability of it in equilibria."""

    label: str
    action_index: int  # among the legal actions, by ascending id
    low: float | None  # None: no equilibrium is known
    high: float | None


class ShownState(NamedTuple):
    """An information state whose probabilities are shown over a run."""

    name: str  # fit for a metric: "first/jack_bets"
    title: str  # for people
    key: Key
    actions: tuple[ShownAction, ...]


def _kuhn(seat: int, state: str, name: str, title: str, low: float, high: float) -> ShownState:
    role = ("first", "second")[seat]
    return ShownState(f"{role}/{name}", title, (seat, state), (ShownAction("bet", 1, low, high),))


_THIRD = 1.0 / 3.0
NAMED = {
    "kuhn_poker": (
        _kuhn(0, "0", "jack_bets", "first bets J (a bluff)", 0.0, _THIRD),
        _kuhn(0, "1", "queen_bets", "first bets Q", 0.0, 0.0),
        _kuhn(0, "2", "king_bets", "first bets K", 0.0, 1.0),
        _kuhn(0, "1pb", "queen_calls", "first calls with Q", _THIRD, 2 * _THIRD),
        _kuhn(1, "0p", "jack_bets", "second bets J (a bluff)", _THIRD, _THIRD),
        _kuhn(1, "1b", "queen_calls", "second calls with Q", _THIRD, _THIRD),
    )
}


def distance_to_kuhn_equilibria(table: PolicyTable) -> float:
    """Return the greatest difference between any probability of Kuhn poker and the nearest equilibrium of the family.

    Each probability may lie within its own band though no single α gives them all, so this says more than the bands.
    """
    bets = {key: row[1] for key, row in table.probabilities.items()}
    fixed = {(0, "0pb"): 0.0, (0, "1"): 0.0, (0, "2pb"): 1.0, (1, "0b"): 0.0, (1, "1p"): 0.0, (1, "2b"): 1.0}
    fixed |= {(1, "2p"): 1.0, (1, "0p"): _THIRD, (1, "1b"): _THIRD}
    apart = max(abs(bets[key] - value) for key, value in fixed.items())
    alphas = np.linspace(0.0, _THIRD, 1001)
    free = [abs(bets[0, "0"] - alphas), abs(bets[0, "2"] - 3 * alphas), abs(bets[0, "1pb"] - alphas - _THIRD)]
    return max(apart, float(np.max(free, axis=0).min()))


def shown_states(spec: GameSpec, roles: Sequence[str], weights: np.ndarray) -> tuple[ShownState, ...]:
    """Return the states to show: the named ones, or those of the greatest ``weights`` [I] of the sequence form.

    ``roles`` are names by seat. None in a game whose positions are boards, which has no sequence form.
    """
    if spec.name in NAMED:
        return NAMED[spec.name]
    form = exact_form(spec.name)
    if not isinstance(form, SequenceForm):
        return ()
    order = np.argsort(-np.round(weights, 12), kind="stable")[:SHOWN]
    equilibrium, positions = nash_equilibrium(spec), information_positions(spec.name)
    states = []
    for index in sorted(int(i) for i in order):
        key = form.keys[index]
        position = positions[key]
        ids, legal = position.legal_ids(), position.legal_actions()
        labels = [label for _, label in sorted(zip(ids, legal, strict=True))]
        row = None if equilibrium is None else equilibrium.probabilities[key]
        actions = tuple(_action(label, i, row) for i, label in enumerate(labels))
        title = "; ".join(position.observe(key[0]).splitlines())
        role = roles[key[0]]
        name = f"{role}/{_short(_NOT_IN_TAGS.sub('_', key[1]).strip('_'), index)}"
        states.append(ShownState(name, f"{role}: {title}", key, actions[1:] if len(actions) == 2 else actions))
    return tuple(states)


def _action(label: str, index: int, row: Sequence[float] | None) -> ShownAction:
    """Return an action with the probability of one equilibrium, whose row is None where none is known."""
    probability = None if row is None else row[index]
    return ShownAction(label, index, probability, probability)


def _short(name: str, index: int) -> str:
    """Return a name that is not too long, with its index in place of what is cut off."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 8]}_{index}"
