"""The pictures of what is done and believed: probabilities of actions at information states, and seats' beliefs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from league.training.board.figures.canvas import (
    BAND,
    COLOURS,
    INK,
    LEFT,
    LETTER,
    PALE,
    SMALL,
    WIDTH,
    MplFigure,
    cut,
    grid,
    label_ends,
    new_figure,
    tidy,
)

Series = Mapping[int, float]  # by the number of speeches so far

MOST_OF_A_NAME = 0.6  # inches of an action's name
THIN = 0.012  # half the height with which a band of one value is drawn


class ActionLine(NamedTuple):
    """The probability of one action over iterations, and its probability in equilibria."""

    label: str
    steps: Sequence[int]
    values: Sequence[float]
    low: float | None
    high: float | None


class StatePanel(NamedTuple):
    """One information state."""

    title: str
    lines: Sequence[ActionLine]


def draw_strategy(title: str, panels: Sequence[StatePanel], banded: bool) -> MplFigure:
    """Return small multiples, one per information state. ``banded``: low and high span all equilibria, not one."""
    figure = new_figure(title)
    columns = 3 if len(panels) > 4 else 2
    labels = [_ending(panel, line) for panel in panels for line in panel.lines]
    right = 0.1 + LETTER * max(map(len, labels), default=0)
    letters = int((WIDTH / columns - LEFT) / LETTER)
    titles = [textwrap.wrap(panel.title, letters, max_lines=2, placeholder=" …") for panel in panels]
    all_axes = grid(figure, len(panels), columns, right=right, title_lines=max(map(len, titles), default=1))
    for axes, panel, title_lines in zip(all_axes, panels, titles, strict=True):
        for colour, line in zip(COLOURS, panel.lines, strict=False):
            _draw_band(axes, line, banded, colour)
            axes.plot(line.steps, line.values, color=colour, lw=1.5, marker="o", ms=1.5)
        axes.set_ylim(-0.05, 1.08)
        ends = zip(panel.lines, COLOURS, strict=False)
        label_ends(axes, [(line.values[-1], _ending(panel, line), colour) for line, colour in ends])
        tidy(axes, "\n".join(title_lines))
        axes.set_yticks([0, 0.5, 1])
    note = "blue: all equilibria" if banded else "dotted: one equilibrium"
    if any(line.low is not None for panel in panels for line in panel.lines):
        figure.text(0.98, 1 - 0.07 / figure.get_figheight(), note, fontsize=SMALL, color=INK, ha="right", va="top")
    return figure


def _ending(panel: StatePanel, line: ActionLine) -> str:
    """Return an action's latest probability, with its name if it is not the only one."""
    value = f"{line.values[-1]:.2f}"
    return f"{value} {cut(line.label, MOST_OF_A_NAME)}" if len(panel.lines) > 1 else value


def _draw_band(axes: Any, line: ActionLine, banded: bool, colour: str) -> None:
    """Draw an action's probability in equilibria: a band, never thinner than a line, or one equilibrium's line."""
    if line.low is None or line.high is None:
        return
    if banded:
        low, high = max(line.low - THIN, -0.03), min(line.high + THIN, 1.03)
        axes.axhspan(low, high, facecolor=BAND, alpha=0.6, edgecolor="#3182bd", lw=0.8)
    else:
        axes.axhline(line.low, color=colour, lw=1.0, ls=":")


def draw_beliefs(title: str, belief: Mapping[str, Sequence[Series]], bits: Series) -> MplFigure:
    """Return belief in the truth by role and speeches, and bits by speech.

    ``belief`` has, for each role, the series of the newest iteration and, if there is another, of the first one, which
    is drawn dotted. ``bits`` are how many the N-th speech told each hearer.
    """
    figure = new_figure(title)
    names = [cut(role, 1.2) for role in belief]
    right = 0.1 + LETTER * (5 + max(map(len, names), default=0))
    above, below = grid(figure, 2, 1, right=right)
    ends = []
    for index, (name, series) in enumerate(zip(names, belief.values(), strict=True)):
        colour = COLOURS[index % len(COLOURS)]
        for number, values in enumerate(series):
            style = {"ls": ":", "lw": 0.9} if number else {"lw": 1.5}
            above.plot(list(values), list(values.values()), color=colour, **style)
        ends += [(last, f"{last:.2f} {name}", colour) for values in series[:1] for last in list(values.values())[-1:]]
    above.set_ylim(0, 1)
    label_ends(above, ends)
    tidy(above, "belief in the truth after N speeches (dotted: at first)")
    below.bar(
        list(bits), list(bits.values()), 0.6, color=[COLOURS[0] if value >= 0 else PALE for value in bits.values()]
    )
    below.axhline(0.0, color=INK, lw=0.6)
    tidy(below, "bits that the N-th speech gave each listener")
    return figure
