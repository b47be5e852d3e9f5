"""The picture of the alarms: which rang when, and which ring now."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from league.training.board.figures.canvas import ALARM, GOOD, LARGE, SMALL, MplFigure, new_figure, plain, tidy


class Ringing(NamedTuple):
    """An alarm and the iterations at which it rang."""

    name: str
    iterations: Sequence[int]
    messages: Sequence[str]  # of the alarm that rings now


def draw_alarms(title: str, alarms: Sequence[Ringing], iteration: int) -> MplFigure:
    """Return the chart of which alarm rang when; those that ring now are red, with their messages."""
    now = [text for alarm in alarms for text in alarm.messages]
    lines = [line for text in now for line in textwrap.wrap(text, 72)[:3]][:8]
    figure = new_figure(title)
    height = figure.get_figheight()
    verdict, colour = (f"{len(now)} alarm{'s' * (len(now) > 1)} now", ALARM) if now else ("nothing rings now", GOOD)
    figure.text(0.98, 1 - 0.06 / height, verdict, fontsize=LARGE, color=colour, weight="bold", ha="right", va="top")
    axes = figure.add_axes((0.15, (0.38 + 0.125 * len(lines)) / height, 0.82, 1 - (0.68 + 0.125 * len(lines)) / height))
    for row, alarm in enumerate(alarms):
        ranges = [(step - 0.5, 1.0) for step in alarm.iterations]
        axes.axhline(row, color="#e4e4e4", lw=1, zorder=0)
        if ranges:
            axes.broken_barh(ranges, (row - 0.35, 0.7), color=ALARM, lw=0)
    axes.set_yticks(range(len(alarms)), [alarm.name for alarm in alarms])
    axes.set_ylim(len(alarms) - 0.4, -0.6)
    axes.set_xlim(0, max(iteration, 1) + 0.5)
    tidy(axes, x_label="iteration")
    for index, line in enumerate(lines):
        y = (0.05 + 0.125 * (len(lines) - 1 - index)) / height
        figure.text(0.02, y, plain(line), fontsize=SMALL, color=ALARM, va="bottom")
    return figure
