"""Charts that several figures share: curves in small multiples, parts of a whole over time, bars by turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from league.training.board.figures.canvas import (
    ALARM,
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

MOST_ACTIONS = 9  # of a role, in their order of frequency


class Curve(NamedTuple):
    """One number over iterations."""

    label: str
    steps: Sequence[int]
    values: Sequence[float]


def draw_curves(title: str, panels: Mapping[str, Sequence[Curve]]) -> MplFigure:
    """Return small multiples of curves by panel, each with its first and latest value."""
    columns = 1 if len(panels) == 1 else 2
    figure = new_figure(title)
    for axes, (name, curves) in zip(grid(figure, len(panels), columns), panels.items(), strict=True):
        for colour, curve in zip(COLOURS, curves, strict=False):
            label = f"{curve.label} {curve.values[0]:.3g} → {curve.values[-1]:.3g}"
            axes.plot(curve.steps, curve.values, color=colour, lw=1.5, label=plain(label))
        values = [value for curve in curves for value in curve.values]
        span = (max(values) - min(values)) or 1.0
        axes.set_ylim(min(values) - 0.05 * span, max(values) + (0.08 + 0.13 * len(curves)) * span)
        axes.legend(
            fontsize=SMALL - 0.5, frameon=False, loc="upper right", handlelength=0, borderpad=0, labelcolor="linecolor"
        )
        tidy(axes, name)
    return figure


class ByTurn(NamedTuple):
    """A role's numbers by turn index, from its first turn."""

    role: str
    means: Sequence[float]
    spreads: Sequence[float]  # standard deviations


def draw_by_turn(title: str, rows: Mapping[str, Sequence[ByTurn]]) -> MplFigure:
    """Return bars of means with their spread by role and turn index, a panel for each of ``rows``."""
    figure = new_figure(title)
    for axes, (name, roles) in zip(grid(figure, len(rows), 1), rows.items(), strict=True):
        width = 0.8 / max(len(roles), 1)
        longest = max((len(role.means) for role in roles), default=1)
        for index, role in enumerate(roles):
            xs = [turn + index * width for turn in range(len(role.means))]
            axes.bar(
                xs,
                role.means,
                width,
                yerr=role.spreads if any(role.spreads) else None,
                color=COLOURS[index % len(COLOURS)],
                ecolor=PALE,
                capsize=2,
                label=plain(role.role),
            )
        axes.axhline(0.0, color=INK, lw=0.6)
        axes.set_xticks([turn + 0.4 - width / 2 for turn in range(longest)])
        axes.set_xticklabels([f"turn {turn + 1}" for turn in range(longest)])
        above = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.97), "borderaxespad": 0.0}  # beside the title
        axes.legend(fontsize=SMALL - 1, frameon=False, ncols=4, handlelength=1, **above)
        tidy(axes, name)
    return figure


def draw_shares(
    title: str, steps: Sequence[int], parts: Mapping[str, Sequence[float]], legend: Mapping[str, float], note: str = ""
) -> MplFigure:
    """Return parts of a whole over iterations as areas; ``legend`` has the shares in the legend."""
    figure = new_figure(title)
    axes = figure.add_axes((0.075, 0.2, 0.66, 0.66))
    labels = [f"{name} {legend[name]:.1%}" for name in parts]
    rows = [list(values) for values in parts.values()]
    if len(steps) == 1:
        steps, rows = [steps[0], steps[0] + 1], [[row[0], row[0]] for row in rows]
    axes.stackplot(steps, rows, labels=[plain(label) for label in labels], colors=COLOURS)
    axes.set_ylim(0, 1)
    axes.set_xlim(steps[0], steps[-1])
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], fontsize=SMALL, frameon=False, loc="center right", handlelength=1)
    if note:
        figure.text(0.98, 0.02, plain(note), fontsize=SMALL, color=INK, ha="right")
    tidy(axes, x_label="iteration")
    return figure


def draw_actions(title: str, shares: Mapping[str, Mapping[str, Mapping[str, float]]]) -> MplFigure:
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
            xs = [x + index * width for x in range(len(actions))]
            axes.bar(xs, heights, width, color=COLOURS[index % len(COLOURS)], label=phase)
        axes.set_xticks([x + 0.4 - width / 2 for x in range(len(actions))])
        axes.set_xticklabels([plain(action[:14]) for action in actions])
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.5, 1])
        axes.axhline(1.0, color=ALARM, lw=0.5, ls=":")
        axes.legend(fontsize=SMALL - 1, frameon=False, loc="upper right", ncols=5, handlelength=1)
        tidy(axes, role)
    return figure
