"""The pictures of who beats whom: the payoff matrix, and the graph of wins with its cycles."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from league.training.board.figures.canvas import ALARM, INK, PALE, SMALL, MplFigure, new_figure, plain, shortened

LETTERS, LINES = 84, 3  # of the verdict
Floats = NDArray[np.float64]


def draw_payoffs(title: str, players: Sequence[str], means: Floats, halves: Floats | None, span: float) -> MplFigure:
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
) -> MplFigure:
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
