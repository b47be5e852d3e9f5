"""The picture of an attack: its gain by budget, with intervals where matches were played."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from league.training.board.figures.canvas import COLOURS, PALE, new_figure, tidy


class CurvePoint(NamedTuple):
    """A point with its interval; the bounds are equal for an exact value, None without an interval."""

    budget: float
    loss: float
    low: float | None
    high: float | None


def save_attack_figure(path: Path, title: str, budget_name: str, points: Sequence[CurvePoint]) -> None:
    """Draw the curve and write a picture, in the format of the path's suffix."""
    figure = new_figure(title)
    axes = figure.add_axes((0.14, 0.17, 0.82, 0.66))
    tidy(axes, y_label="loss a match", x_label=budget_name)
    axes.plot([p.budget for p in points], [p.loss for p in points], color=COLOURS[0], marker="o", markersize=3)
    bars = [(p.budget, p.low, p.high) for p in points if p.low is not None and p.high is not None and p.low < p.high]
    for budget, low, high in bars:
        axes.plot([budget, budget], [low, high], color=COLOURS[0], linewidth=0.8)
    axes.grid(color=PALE, alpha=0.3, linewidth=0.5)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    figure.savefig(path)
