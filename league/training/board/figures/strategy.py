"""The pictures of what is done and believed: probabilities of actions at information states, and seats' beliefs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from league.training.board.figures.canvas import (
    BAND,
    COLOURS,
    INK,
    PALE,
    SMALL,
    MplFigure,
    grid,
    new_figure,
    plain,
    tidy,
)

Series = Mapping[int, float]  # by the number of speeches so far

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
    for axes, panel in zip(grid(figure, len(panels), 3 if len(panels) > 4 else 2), panels, strict=True):
        for colour, line in zip(COLOURS, panel.lines, strict=False):
            _draw_band(axes, line, banded, colour)
            axes.plot(line.steps, line.values, color=colour, lw=1.5, marker="o", ms=1.5, label=plain(line.label))
            axes.annotate(
                f"{line.values[-1]:.2f}",
                (1.0, line.values[-1]),
                xycoords=("axes fraction", "data"),
                xytext=(-1, 2),
                textcoords="offset points",
                fontsize=SMALL,
                color=colour,
                ha="right",
            )
        axes.set_ylim(-0.05, 1.08)
        axes.set_yticks([0, 0.5, 1])
        if len(panel.lines) > 1:
            axes.legend(fontsize=SMALL - 1.5, frameon=False, loc="upper left", ncols=3, columnspacing=0.6)
        tidy(axes, panel.title[:26])
    note = "blue: all equilibria" if banded else "dotted: one equilibrium"
    if any(line.low is not None for panel in panels for line in panel.lines):
        figure.text(0.98, 1 - 0.07 / figure.get_figheight(), note, fontsize=SMALL, color=INK, ha="right", va="top")
    return figure


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
    above, below = grid(figure, 2, 1)
    for index, (role, series) in enumerate(belief.items()):
        colour = COLOURS[index % len(COLOURS)]
        for number, values in enumerate(series):
            style = {"ls": ":", "lw": 0.9} if number else {"lw": 1.5, "label": plain(role)}
            above.plot(list(values), list(values.values()), color=colour, **style)
    above.set_ylim(0, 1)
    above.legend(fontsize=SMALL - 1, frameon=False, loc="upper left", ncols=4, handlelength=0, labelcolor="linecolor")
    tidy(above, "belief in the truth after N speeches (dotted: at first)")
    below.bar(
        list(bits), list(bits.values()), 0.6, color=[COLOURS[0] if value >= 0 else PALE for value in bits.values()]
    )
    below.axhline(0.0, color=INK, lw=0.6)
    tidy(below, "bits that the N-th speech told each hearer")
    for axes in (above, below):
        axes.locator_params(axis="x", integer=True)  # speeches are counted
    return figure
