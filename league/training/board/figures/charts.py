"""Charts that several figures share: curves in small multiples, parts of a whole over time, bars by turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from league.training.board.figures.canvas import (
    ALARM,
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
    plain,
    tidy,
)

MOST_ACTIONS = 9  # of a role, in their order of frequency
MOST_PANELS = 6  # of a figure: more would be too small to be read


class Curve(NamedTuple):
    """One number over iterations."""

    label: str
    steps: Sequence[int]
    values: Sequence[float]


def draw_curves(title: str, panels: Mapping[str, Sequence[Curve]]) -> MplFigure:
    """Return small multiples of curves by panel, each with its name and latest value beside its end.

    Of more than ``MOST_PANELS`` the first ones are drawn, and the title says so.
    """
    shown = dict(list(panels.items())[:MOST_PANELS])
    if len(shown) < len(panels):
        title += f" ({len(shown)} of {len(panels)})"
    figure = new_figure(title)
    columns = 1 if len(shown) == 1 else 2 if len(shown) <= 4 else 3
    longest = {1: 30, 2: 22, 3: 12}[columns]
    labels = [_ending(curve, longest) for curves in shown.values() for curve in curves]
    right = 0.1 + LETTER * max(map(len, labels), default=0)
    for axes, (name, curves) in zip(grid(figure, len(shown), columns, right=right), shown.items(), strict=True):
        for colour, curve in zip(COLOURS, curves, strict=False):
            axes.plot(curve.steps, curve.values, color=colour, lw=1.5)
        values = [value for curve in curves for value in curve.values]
        span = (max(values) - min(values)) or 1.0
        axes.set_ylim(min(values) - 0.05 * span, max(values) + 0.05 * span)
        ends = [(c.values[-1], _ending(c, longest), colour) for c, colour in zip(curves, COLOURS, strict=False)]
        label_ends(axes, ends)
        tidy(axes, cut(name, WIDTH / columns - LEFT))
    return figure


def _ending(curve: Curve, longest: int) -> str:
    """Return a curve's latest value and name."""
    value = f"{curve.values[-1]:.3g}"
    return f"{value} {cut(curve.label, LETTER * (longest - len(value) - 1))}"


class ByTurn(NamedTuple):
    """A role's numbers by turn index, from its first turn."""

    role: str
    means: Sequence[float]
    spreads: Sequence[float]  # standard deviations


def draw_by_turn(title: str, rows: Mapping[str, Sequence[ByTurn]]) -> MplFigure:
    """Return bars of means with their spread by role and turn index, a panel for each of ``rows``."""
    figure = new_figure(title)
    colours = {role.role: COLOURS[n % len(COLOURS)] for roles in rows.values() for n, role in enumerate(roles)}
    _legend(figure, colours)
    for axes, (name, roles) in zip(grid(figure, len(rows), 1, above=0.52), rows.items(), strict=True):
        width = 0.8 / max(len(roles), 1)
        longest = max((len(role.means) for role in roles), default=1)
        for index, role in enumerate(roles):
            axes.bar(
                [turn + index * width for turn in range(len(role.means))],
                role.means,
                width,
                yerr=role.spreads if any(role.spreads) else None,
                color=colours[role.role],
                ecolor=PALE,
                capsize=2,
            )
        axes.axhline(0.0, color=INK, lw=0.6)
        tidy(axes, name)
        axes.set_xticks([turn + 0.4 - width / 2 for turn in range(longest)])
        axes.set_xticklabels([f"turn {turn + 1}" for turn in range(longest)])
    return figure


def _legend(figure: MplFigure, colours: Mapping[str, str]) -> None:
    """Write names in their colours in a line below the title, as many as there is room for."""
    from matplotlib.patches import Patch

    names, room = list(colours), int((WIDTH - 0.2) / LETTER)
    while names and sum(map(len, names)) + 4 * len(names) > room:
        names.pop()
    handles = [Patch(color=colours[name], label=plain(name)) for name in names]
    figure.legend(
        handles=handles,
        fontsize=SMALL,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(0.01, 1 - 0.24 / figure.get_figheight()),
        ncols=max(len(names), 1),
        handlelength=0.8,
        handletextpad=0.4,
        columnspacing=1.0,
        borderpad=0.0,
    )


def draw_shares(
    title: str, steps: Sequence[int], parts: Mapping[str, Sequence[float]], legend: Mapping[str, float], note: str = ""
) -> MplFigure:
    """Return parts of a whole over iterations as areas; ``legend`` has the shares in the legend."""
    figure = new_figure(title)
    axes = figure.add_axes((0.065, 0.24, 0.68, 0.6))
    labels = [f"{name} {legend[name]:.1%}" for name in parts]
    draw_areas(figure, axes, steps, [list(values) for values in parts.values()], labels, COLOURS)
    if note:
        figure.text(0.98, 0.02, plain(note), fontsize=SMALL, color=INK, ha="right")
    return figure


def draw_areas(
    figure: MplFigure,
    axes: object,
    steps: Sequence[int],
    rows: Sequence[Sequence[float]],
    labels: Sequence[str],
    colours: Sequence[str],
) -> None:
    """Draw areas that sum to one over iterations, with a legend on the right in the order of the areas."""
    if len(steps) == 1:
        steps, rows = [steps[0], steps[0] + 1], [[row[0], row[0]] for row in rows]
    axes.stackplot(steps, rows, labels=[plain(label) for label in labels], colors=colours)  # type: ignore[attr-defined]
    axes.set_ylim(0, 1)  # type: ignore[attr-defined]
    axes.set_xlim(steps[0], steps[-1])  # type: ignore[attr-defined]
    handles, names = axes.get_legend_handles_labels()  # type: ignore[attr-defined]
    figure.legend(
        handles[::-1],
        names[::-1],
        fontsize=SMALL,
        frameon=False,
        loc="center left",
        bbox_to_anchor=(0.755, 0.53),
        borderpad=0.0,
        labelspacing=0.25,
        handlelength=1,
    )
    tidy(axes, x_label="iteration")


def draw_actions(title: str, shares: Mapping[str, Mapping[str, Mapping[str, float]]]) -> MplFigure:
    """Return shares of actions as bars, by role and phase of the match ("turn 1"): role, phase, action."""
    rows = [(role, phases) for role, phases in shares.items() if phases][:3]
    figure = new_figure(title)
    phases_of_all = dict.fromkeys(phase for _, phases in rows for phase in phases)
    colours = {phase: COLOURS[number % len(COLOURS)] for number, phase in enumerate(phases_of_all)}
    _legend(figure, colours)
    for axes, (role, phases) in zip(grid(figure, len(rows), 1, above=0.52), rows, strict=True):
        totals: dict[str, float] = {}
        for of_phase in phases.values():
            for action, share in of_phase.items():
                totals[action] = totals.get(action, 0.0) + share
        actions = sorted(totals, key=lambda action: -totals[action])[:MOST_ACTIONS]
        width = 0.8 / len(phases)
        for index, (phase, of_phase) in enumerate(phases.items()):
            heights = [of_phase.get(action, 0.0) for action in actions]
            axes.bar([x + index * width for x in range(len(actions))], heights, width, color=colours[phase])
        axes.set_ylim(0, 1)
        axes.axhline(1.0, color=ALARM, lw=0.5, ls=":")
        tidy(axes, role)
        axes.set_xticks([x + 0.4 - width / 2 for x in range(len(actions))])
        axes.set_xticklabels([plain(cut(action, WIDTH / len(actions) - 0.1)) for action in actions])
        axes.set_yticks([0, 0.5, 1])
    return figure
