"""What a policy does: probabilities at information states over iterations, and shares of actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from league.monitors.figures.canvas import (
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
    columns = 2
    figure = new_figure(title, 0.7 + 1.25 * -(-len(panels) // columns))
    for axes, panel in zip(grid(figure, len(panels), columns), panels, strict=True):
        for colour, line in zip(COLOURS, panel.lines, strict=False):
            if line.low is not None and line.high is not None:
                if banded:
                    axes.axhspan(max(line.low - THIN, -0.03), min(line.high + THIN, 1.03), color=BAND, alpha=0.55, lw=0)
                else:
                    axes.axhline(line.low, color=colour, lw=1.2, ls=":")
            axes.plot(line.steps, line.values, color=colour, lw=1.8, marker="o", ms=2, label=plain(line.label))
            axes.annotate(
                f"{line.values[-1]:.2f}",
                (line.steps[-1], line.values[-1]),
                xytext=(2, 1),
                textcoords="offset points",
                fontsize=SMALL,
                color=colour,
            )
        axes.set_ylim(-0.05, 1.08)
        axes.set_yticks([0, 0.5, 1])
        axes.margins(x=0.1)
        if len(panel.lines) > 1:
            axes.legend(fontsize=SMALL - 1.5, frameon=False, loc="upper left", ncols=3, handlelength=1)
        tidy(axes, panel.title[:46])
    note = "blue: all equilibria" if banded else "dotted: one equilibrium"
    if any(line.low is not None for panel in panels for line in panel.lines):
        figure.text(0.98, 1 - 0.1 / figure.get_figheight(), note, fontsize=SMALL, color=INK, ha="right", va="top")
    return pixels(figure)


def draw_actions(title: str, shares: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Pixels:
    """Return shares of actions as bars, by role and phase of the match ("turn 1"): role, phase, action."""
    rows = [(role, phases) for role, phases in shares.items() if phases]
    figure = new_figure(title, 0.75 + 1.7 * max(len(rows), 1))
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
