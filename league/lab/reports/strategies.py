"""The policies' strategies: action probabilities at information states over a run, with equilibria where known.

Only for games that the run has tabulated. ``league.theory.exact.strategy_states`` chooses the states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from league.lab.reports.run_record import RunRecord, Tabulated
from league.lab.reports.svg import Line, line_chart
from league.theory.exact.exploitability import exact_form
from league.theory.exact.regret import visit_regrets
from league.theory.exact.sequence_form import SequenceForm
from league.theory.exact.strategy_states import NAMED, ShownAction, ShownState, shown_states

MOST_WEIGHED = 25  # tables whose regrets choose the states


class StateChart(NamedTuple):
    """An information state: its probabilities over the run, and those of the newest policy."""

    title: str
    svg: Markup
    labels: tuple[str, ...]  # of the lines: actions, or runs
    verdict: str  # the newest policy's probability, and the equilibria's
    inside: bool | None  # whether it is in the band; None: there is none


class GameStrategies(NamedTuple):
    """The strategies of one game."""

    game: str
    named: bool  # whether the states are the named ones, with all equilibria as bands
    charts: list[StateChart]
    equilibrium: bool  # whether one is drawn


def strategies(records: Sequence[RunRecord]) -> list[GameStrategies]:
    """Return the strategies of all tabulated games of the runs; several runs have a line each."""
    games = list(dict.fromkeys(game for record in records for game in record.tables))
    all_games = [_game(game, [record for record in records if game in record.tables]) for game in games]
    return [strategy for strategy in all_games if strategy.charts]


def _game(game: str, records: Sequence[RunRecord]) -> GameStrategies:
    spec, tabulated = records[0].specs[game], {record.name: record.tables[game] for record in records}
    weights = _weights(game, list(tabulated.values()))
    charts = []
    states = shown_states(spec, [role.name for role in records[0].roles[game]], weights)
    for state in states:
        if len(records) == 1:
            charts.append(_of_one(state, tabulated[records[0].name]))
        else:
            charts += [_of_several(state, action, tabulated) for action in state.actions]
    has_equilibrium = any(action.low is not None for state in states for action in state.actions)
    return GameStrategies(game, game in NAMED, charts, has_equilibrium)


def _weights(game: str, runs: Sequence[Tabulated]) -> NDArray[np.float64]:
    """Return visit times regret of each information state [I], the mean over some tables of each run."""
    form = exact_form(game)
    if not isinstance(form, SequenceForm) or game in NAMED:
        return np.zeros(0)
    chosen = []
    for run in runs:
        indices = sorted({*np.linspace(0, len(run.tables) - 1, MOST_WEIGHED).astype(int)})
        chosen += [run.tables[index] for index in indices]
    return np.asarray(np.mean([visit_regrets(form, table) for table in chosen], axis=0))


def _of_one(state: ShownState, run: Tabulated) -> StateChart:
    """Return a state's chart for one run: a line for each shown action."""
    lines = [_line(action.label, state, action, run) for action in state.actions]
    band = _band(state.actions[0]) if len(state.actions) == 1 else None
    value = lines[0].ys[-1]
    labels = tuple(line.label for line in lines) if len(lines) > 1 else ()
    verdict = ", ".join(_verdict(action, line.ys[-1]) for action, line in zip(state.actions, lines, strict=True))
    return StateChart(
        state.title,
        line_chart(lines, state.title, y_range=(0.0, 1.0), band=band),
        labels,
        verdict,
        None if band is None else band[0] - 1e-9 <= value <= band[1] + 1e-9,
    )


def _of_several(state: ShownState, action: ShownAction, runs: Mapping[str, Tabulated]) -> StateChart:
    """Return the chart of one action at a state: a line for each run."""
    lines = [_line(name, state, action, run) for name, run in runs.items()]
    title = state.title if len(state.actions) == 1 else f"{state.title}: {action.label}"
    ends = " and ".join(f"{line.ys[-1]:.2f}" for line in lines)
    return StateChart(
        title,
        line_chart(lines, title, y_range=(0.0, 1.0), band=_band(action)),
        tuple(line.label for line in lines),
        f"{action.label} {ends}{_equilibria(action)}",
        None,
    )


def _line(label: str, state: ShownState, action: ShownAction, run: Tabulated) -> Line:
    return Line(label, run.steps, [table.probabilities[state.key][action.action_index] for table in run.tables])


def _band(action: ShownAction) -> tuple[float, float] | None:
    return None if action.low is None or action.high is None else (action.low, action.high)


def _verdict(action: ShownAction, value: float) -> str:
    return f"{action.label} {value:.2f}{_equilibria(action)}"


def _equilibria(action: ShownAction) -> str:
    band = _band(action)
    if band is None:
        return ""
    single = band[1] - band[0] < 0.005
    return f", in equilibrium {band[0]:.2f}" if single else f", in equilibria {band[0]:.2f} to {band[1]:.2f}"
