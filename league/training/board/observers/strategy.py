"""The figure of a strategy: probabilities at information states over iterations, beside the equilibria's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from league.training.board.figures.canvas import BAND, COLOURS, INK, SMALL, Drawing, grid, new_figure, plain, tidy
from league.training.board.observer import Figure, FigureData
from league.training.board.questions import DOING

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


def strategy(data: FigureData, game: str) -> Drawing:
    """Draw what it does: the probabilities of actions at the information states that matter most."""
    played = data.strategies[game]
    panels = [
        StatePanel(
            state.title,
            [
                ActionLine(action.label, played.steps, values, action.low, action.high)
                for action, values in zip(state.actions, rows, strict=True)
            ],
        )
        for state, rows in zip(played.states, played.probabilities, strict=True)
    ]
    return draw_strategy(f"{game}: what does it do?", panels, played.named)


STRATEGY_FIGURE = Figure(strategy, question=DOING, games=lambda data: data.strategies, pinned=True)


def draw_strategy(title: str, panels: Sequence[StatePanel], banded: bool) -> Drawing:
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
