"""The figures of who beats whom: the payoff matrix, and the graph of wins with its cycles."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from league.theory.statistics import Z_95
from league.training.board.comparison import Comparison
from league.training.board.figures.canvas import Drawing, shortened
from league.training.board.figures.payoffs import draw_payoffs, draw_wins
from league.training.board.observer import Figure, FigureData
from league.training.board.questions import BEATS

LETTERS, LINES = 84, 3  # of the verdict
Floats = NDArray[np.float64]


def compared(data: FigureData) -> list[str]:
    """Return the games whose players were compared."""
    return [game for game, comparison in data.comparisons.items() if len(comparison.players) > 1]


def payoffs(data: FigureData, game: str) -> Drawing:
    """Draw who beats whom: the payoff matrix of the players that the figure has room for."""
    comparison = data.comparisons[game]
    chosen = comparison.shown()
    index = np.ix_(chosen, chosen)
    means = comparison.means[index].copy()
    np.fill_diagonal(means, np.nan)
    halves = None if comparison.errors is None else comparison.errors[index] * Z_95
    finite = np.abs(means[np.isfinite(means)])
    span = max(float(finite.max()) if finite.size else 0.0, comparison.half_range / 20)
    names = [comparison.players[i] for i in chosen]
    return partial(draw_payoffs, f"{comparison.game}: who beats whom?", names, means, halves, span)


def wins(data: FigureData, game: str) -> Drawing:
    """Draw whether it cycles: the graph of significant wins, with its clearest cycle."""
    comparison = data.comparisons[game]
    chosen = comparison.shown()
    names = [comparison.players[i] for i in chosen]
    cycles = [
        [names.index(player) for player in cycle.players]
        for cycle in comparison.cycles
        if set(cycle.players) <= set(names)
    ]
    title = f"{comparison.game}: are there cycles?"
    return partial(draw_wins, title, names, comparison.beats(chosen), cycles, _verdict(comparison, len(chosen)))


def _verdict(comparison: Comparison, shown: int) -> str:
    """Return a sentence on cycles, and on which players were compared: players that never met may be on one."""
    unmet, pairs = comparison.unmet()
    players = len(comparison.players)
    facts = [f"{players} players were compared"]
    facts += [f"{shown} of them are shown"] if shown < players else []
    facts += [f"{comparison.left_out} others were not"] if comparison.left_out else []
    facts += [f"{unmet} of {pairs} pairs never met"] if unmet else []
    looked_at = f" {', '.join(facts)}." if len(facts) > 1 else ""
    clearest = comparison.clearest()
    if clearest is None:
        return f"No cycle was found.{looked_at}" if looked_at else "No cycle: all these players can be ranked."
    circle = " beats ".join(shortened([*clearest.players, clearest.players[0]]))
    if comparison.cycles:
        others = f" and {len(comparison.cycles) - 1} more" if len(comparison.cycles) > 1 else ""
        return f"Cycle: {circle}{others}.{looked_at}"
    margin = clearest.margin / comparison.half_range
    return f"Only slight cycles: {circle}, by {margin:.1%} of half the game's range or more.{looked_at}"


PAYOFFS_FIGURE = Figure(payoffs, question=BEATS, games=compared, pinned=True)
WINS_FIGURE = Figure(wins, question=BEATS, games=compared, pinned=True)
