"""The strategies of a run's main policies over its snapshots, at the information states that are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from games.spec import GameSpec
from league.population.evaluation.policy_tables import Profile
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.regret import visit_regrets
from league.theory.exact.sequence_form import SequenceForm
from league.theory.exact.strategy_states import NAMED, ShownState, distance_to_kuhn_equilibria, shown_states


class GameStrategy(NamedTuple):
    """One game's strategy over the snapshots."""

    states: tuple[ShownState, ...]
    steps: tuple[int, ...]  # of the line-ups, in iterations  # [T]
    probabilities: tuple[tuple[tuple[float, ...], ...], ...]  # [states][actions][T]
    named: bool  # the states have names, and the bands are those of all equilibria


class Strategies:
    """Chooses and reads the states that are shown; remembers the visit times regret of line-ups that it has seen."""

    def __init__(self) -> None:
        self._weights: dict[tuple[str, Profile], np.ndarray] = {}

    def over_snapshots(
        self, spec: GameSpec, roles: Sequence[str], tables: Mapping[Profile, PolicyTable], steps: Mapping[Profile, int]
    ) -> GameStrategy | None:
        """Return the strategy of the line-ups in ``steps``, in their order. ``roles`` are names by seat.

        None in a game whose positions are boards.
        """
        form = exact_form(spec.name)
        if not isinstance(form, SequenceForm) or not steps:
            return None
        weights = np.zeros(len(form.keys))
        for profile in steps if spec.name not in NAMED else ():
            if (spec.name, profile) not in self._weights:
                self._weights[spec.name, profile] = visit_regrets(form, tables[profile])
            weights += self._weights[spec.name, profile]
        states = shown_states(spec, roles, weights)
        probabilities = tuple(
            tuple(
                tuple(tables[profile].probabilities[state.key][action.action_index] for profile in steps)
                for action in state.actions
            )
            for state in states
        )
        return GameStrategy(states, tuple(steps.values()), probabilities, spec.name in NAMED)


def strategy_metrics(game: str, states: Sequence[ShownState], table: PolicyTable) -> dict[str, float]:
    """Return a table's probabilities at the states, ``strategy/STATE/ACTION``, and the equilibria's.

    ``equilibrium/STATE/ACTION/low`` and ``/high`` are the ends of the band, equal where one equilibrium is known. In
    Kuhn poker ``equilibrium_distance`` is the greatest difference of any probability to the nearest equilibrium.
    """
    metrics: dict[str, float] = {}
    for state in states:
        for action in state.actions:
            name = f"{state.name}/{action.label}"
            metrics[f"strategy/{name}"] = table.probabilities[state.key][action.action_index]
            if action.low is not None and action.high is not None:
                metrics[f"equilibrium/{name}/low"] = action.low
                metrics[f"equilibrium/{name}/high"] = action.high
    if game == "kuhn_poker":
        metrics["equilibrium_distance"] = distance_to_kuhn_equilibria(table)
    return metrics
