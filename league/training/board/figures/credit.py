"""How close credit rules come to the exact gradient: cosine, bias and noise of each, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from league.training.board.figures.canvas import COLOURS, INK, PALE, SMALL, new_figure, plain, tidy

if TYPE_CHECKING:
    from collections.abc import Callable

Interval = tuple[float, float | None, float | None]  # value, low, high


class CreditRow(NamedTuple):
    """A rule, or several that assign the same credit."""

    label: str
    cosine: Interval | None
    bias: Interval | None
    noise: float | None


def save_credit_figure(path: Path, title: str, rows: Sequence[CreditRow]) -> None:
    """Draw the rows from top to bottom and write a picture, in the format of the path's suffix."""
    figure = new_figure(title, height=0.75 + 0.2 * len(rows))
    figure.set_figwidth(7.0)
    height = figure.get_figheight()
    panels: list[tuple[str, Callable[[CreditRow], Interval | None]]] = [
        ("cosine of a batch (1 is best)", lambda row: row.cosine),
        ("bias (0 is best)", lambda row: row.bias),
        ("noise of a batch (0 is best)", lambda row: None if row.noise is None else (row.noise, None, None)),
    ]
    for number, (name, value_of) in enumerate(panels):
        axes = figure.add_axes((0.3 + 0.235 * number, 0.24 / height, 0.2, 1 - 0.72 / height))
        tidy(axes, name)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), [plain(_cut(row.label)) for row in rows] if number == 0 else [])
        axes.tick_params(axis="y", labelsize=SMALL - 0.5, length=0)
        axes.grid(axis="x", color=PALE, alpha=0.3, linewidth=0.5)
        for y, row in enumerate(rows):
            _point(axes, y, value_of(row), INK if y == 0 else COLOURS[0])
        low, high = axes.get_xlim()
        axes.set_xlim(min(0.0, low), max(1.0, high) + 0.05)
    figure.savefig(path)


def _point(axes: object, y: int, value: Interval | None, colour: str) -> None:
    """Draw a value with its interval."""
    if value is None:
        return
    mean, low, high = value
    if low is not None and high is not None:
        axes.plot([low, high], [y, y], color=colour, linewidth=1.2, alpha=0.6)  # type: ignore[attr-defined]
    axes.plot([mean], [y], "o", color=colour, markersize=3)  # type: ignore[attr-defined]


def _cut(label: str) -> str:
    return label if len(label) <= 36 else f"{label[:35]}…"
