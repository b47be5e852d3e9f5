"""What a policy does: probabilities at information states over iterations, and shares of actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from league.training.board.figures.canvas import (
    ALARM,
    BAND,
    COLOURS,
    INK,
    SMALL,
    Pixels,
    grid,
    new_figure,
    pixels,
    plain,
    tidy,
)

MOST_ACTIONS = 9  # of a role, in its order of frequency
THIN = 0.012  # half the height that a band of one value is drawn with


class ActionLine(NamedTuple):
    """The probability of one action over iterations, and where equilibria have it."""

    label: str
    steps: Sequence[int]
    values: Sequence[float]
    low: float | None
    high: float | None


class StatePanel(NamedTuple):
    """One information state."""

    title: str
    lines: Sequence[ActionLine]


def draw_strategy(title: str, panels: Sequence[StatePanel], banded: bool) -> Pixels:
    """Return small multiples, one an information state. ``banded``: low and high are all equilibria's, not of one."""
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
    return pixels(figure)


def _draw_band(axes: Any, line: ActionLine, banded: bool, colour: str) -> None:
    """Draw where equilibria have an action: a band that is never thinner than a line, or the line of one of them."""
    if line.low is None or line.high is None:
        return
    if banded:
        low, high = max(line.low - THIN, -0.03), min(line.high + THIN, 1.03)
        axes.axhspan(low, high, facecolor=BAND, alpha=0.6, edgecolor="#3182bd", lw=0.8)
    else:
        axes.axhline(line.low, color=colour, lw=1.0, ls=":")


def draw_actions(title: str, shares: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Pixels:
    """Return shares of actions as bars, by role and phase of the match ("turn 1"): role, phase, action."""
    rows = [(role, phases) for role, phases in shares.items() if phases]
    figure = new_figure(title)
    for axes, (role, phases) in zip(grid(figure, len(rows), 1), rows, strict=True):
        totals: dict[str, float] = {}
        for of_phase in phases.values():
            for action, share in of_phase.items():
                totals[action] = totals.get(action, 0.0) + share
        actions = sorted(totals, key=lambda action: -totals[action])[:MOST_ACTIONS]
        width = 0.8 / len(phases)
        for index, (phase, of_phase) in enumerate(phases.items()):
            heights = [of_phase.get(action, 0.0) for action in actions]
            places = [place + index * width for place in range(len(actions))]
            axes.bar(places, heights, width, color=COLOURS[index % len(COLOURS)], label=phase)
        axes.set_xticks([place + 0.4 - width / 2 for place in range(len(actions))])
        axes.set_xticklabels([plain(action[:14]) for action in actions])
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.5, 1])
        axes.axhline(1.0, color=ALARM, lw=0.5, ls=":")
        axes.legend(fontsize=SMALL - 1, frameon=False, loc="upper right", ncols=5, handlelength=1)
        tidy(axes, role)
    return pixels(figure)
