"""The figures of who beats whom: the payoff matrix, and the graph of wins with its cycles."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.theory.statistics import Z_95
from league.training.board.comparison import Comparison
from league.training.board.figures.canvas import ALARM, INK, PALE, SMALL, Drawing, new_figure, plain, shortened
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
    return draw_payoffs(f"{comparison.game}: who beats whom?", names, means, halves, span)


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
    title = f"{comparison.game}: does it go in circles?"
    return draw_wins(title, names, comparison.beats(chosen), cycles, _verdict(comparison, len(chosen)))


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


def draw_payoffs(title: str, players: Sequence[str], means: Floats, halves: Floats | None, span: float) -> Drawing:
    """Return row's mean return against column [N, N] as a heat map; nan: never met.

    ``halves`` [N, N] are half the width of the 95 % intervals, None where the means are exact. ``span`` is the return
    with the deepest colour.
    """
    names, size = shortened(players), len(players)
    figure = new_figure(title, 3.1)
    axes = figure.add_axes((0.15, 0.17, 0.83, 0.68))
    axes.imshow(np.ma.masked_invalid(means), cmap="RdBu", vmin=-span, vmax=span, aspect="auto")
    letters = SMALL - 0.5 if size <= 7 else SMALL - 1.5
    for row in range(size):
        for column in range(size):
            mean = means[row, column]
            if np.isfinite(mean):
                text = f"{mean:+.2f}"
                if halves is not None and np.isfinite(halves[row, column]):
                    text += f"\n±{halves[row, column]:.2f}"
                dark = abs(mean) > 0.65 * span
                axes.text(column, row, text, ha="center", va="center", fontsize=letters, color="white" if dark else INK)
    axes.set_xticks(range(size), [plain(name) for name in names], rotation=25, ha="right", fontsize=SMALL)
    axes.set_yticks(range(size), [plain(name) for name in names], fontsize=SMALL)
    axes.tick_params(length=0, pad=2)
    note = "row's mean return against column, " + ("exact" if halves is None else "± 95 % interval")
    figure.text(0.02, 0.875, note, fontsize=SMALL, color=INK)
    return figure


def draw_wins(
    title: str, players: Sequence[str], beats: NDArray[np.bool_], cycles: Sequence[Sequence[int]], verdict: str
) -> Drawing:
    """Return the graph of significant wins [N, N], from winner to loser; wins in ``cycles`` are red.

    ``verdict`` is written below, red if there is such a cycle.
    """
    names, size = shortened(players), len(players)
    figure = new_figure(title)
    axes = figure.add_axes((0.02, 0.1, 0.96, 0.8))
    angles = np.pi / 2 - 2 * np.pi * np.arange(size) / max(size, 1)
    x, y = np.cos(angles), np.sin(angles)
    on_cycle = {(cycle[index], cycle[(index + 1) % len(cycle)]) for cycle in cycles for index in range(len(cycle))}
    for winner, loser in np.argwhere(beats).tolist():
        red = (winner, loser) in on_cycle
        axes.annotate(
            "",
            (x[loser] * 0.93, y[loser] * 0.93),
            (x[winner] * 0.93, y[winner] * 0.93),
            arrowprops={
                "arrowstyle": "-|>",
                "color": ALARM if red else PALE,
                "lw": 1.8 if red else 0.5,
                "alpha": 1.0 if red else 0.55,
                "shrinkA": 4,
                "shrinkB": 4,
            },
        )
    axes.scatter(x, y, s=26, color=INK, zorder=3)
    for index, name in enumerate(names):
        side = "left" if x[index] > 0.1 else "right" if x[index] < -0.1 else "center"
        axes.text(x[index] * 1.1, y[index] * 1.12, plain(name), ha=side, va="center", fontsize=SMALL, color=INK)
    axes.set_xlim(-1.7, 1.7)
    axes.set_ylim(-1.25, 1.25)
    axes.axis("off")
    weight, colour = ("bold", ALARM) if cycles else ("normal", INK)
    lines = "\n".join(textwrap.wrap(verdict, LETTERS)[:LINES])
    figure.text(0.02, 0.02, plain(lines), fontsize=SMALL, color=colour, weight=weight, va="bottom")
    return figure
