"""Shared by all figures: size, colours and fonts, and a figure's pixels. No global state of matplotlib is changed.

Cards of the board's opening page show images in about 500 by 215 pixels (``league.training.board.server``), so figures
have that shape, and 10-point letters are 10 pixels high. Twice as many pixels are drawn for the enlarged view. In a
card TensorBoard keeps only every second pixel and so loses the thin strokes of letters; therefore each pixel is the
mean of two by two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    MplFigure = Figure
else:  # matplotlib takes half a second to import
    MplFigure = Any

# A figure, or a function that draws one: ``functools.partial`` of a function of a module is drawn beside the run.
Drawing = MplFigure | Callable[[], MplFigure]

Pixels = NDArray[np.uint8]  # [height, width, 3]

WIDTH, HEIGHT, DPI = 6.6, 2.9, 150  # inches, inches, pixels an inch
SMALL, MEDIUM, LARGE = 9.5, 10.0, 11.5  # points
LETTER = 0.077  # inches, about, of a small letter's width
LINE, TITLE = 0.17, 0.18  # inches of a line of small letters, and of a panel's title
LEFT = 0.42  # inches, of the numbers beside a panel's axes
INK, PALE, BAND, ALARM, GOOD = "#222222", "#8a8a8a", "#9ecae1", "#c62828", "#2e7d32"
COLOURS = ("#1f5fa8", "#d9822b", "#2e8b57", "#a23b72", "#6b5b95", "#8c6d31", "#17808f", "#b5473c", "#5f6b2d", "#7f7f7f")


def new_figure(title: str, height: float = HEIGHT) -> MplFigure:
    """Return an empty figure with its title at the top left. ``title`` is shown verbatim."""
    from matplotlib.figure import Figure  # takes half a second to import

    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    figure.text(0.02, 1 - 0.06 / height, plain(title), fontsize=LARGE, weight="bold", color=INK, va="top")
    return figure


def drawn(drawing: Drawing) -> MplFigure:
    """Return the figure of a drawing."""
    return drawing() if callable(drawing) else drawing


def pixels(drawing: Drawing) -> Pixels:
    """Return a drawing's pixels, [height, width, 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(drawn(drawing))
    canvas.draw()
    sums = np.asarray(canvas.buffer_rgba())[..., :3].astype(np.uint16)
    for lines in (sums, sums.swapaxes(0, 1)):  # each with the next, and the last with itself
        lines[:-1] += lines[1:]
        lines[-1] *= 2
    return ((sums + 2) // 4).astype(np.uint8)


def tidy(axes: Any, title: str = "", y_label: str = "", x_label: str = "") -> None:
    """Give axes the house style: few lines and ticks, small letters, titles on the left."""
    from matplotlib.ticker import MaxNLocator

    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)
    axes.tick_params(labelsize=SMALL - 0.5, colors=INK, length=2, pad=1.5)
    for axis in (axes.xaxis, axes.yaxis):
        if isinstance(axis.get_major_locator(), _automatic()):
            axis.set_major_locator(MaxNLocator(4 if axis is axes.xaxis else 3, integer=axis is axes.xaxis))
    if title:  # its height is given, as looking for the lowest free one measures every tick's label again
        axes.set_title(plain(title), fontsize=MEDIUM, loc="left", color=INK, y=1.0, pad=3)
    axes.set_ylabel(y_label, fontsize=SMALL, color=INK, labelpad=2)
    axes.set_xlabel(x_label, fontsize=SMALL, color=INK, labelpad=1)
    for axis in (axes.xaxis, axes.yaxis):
        if not axis.get_label_text():  # nor is room sought for no label
            axis.set_label_coords(0.0, 0.0)


def _automatic() -> type:
    from matplotlib.ticker import AutoLocator

    return AutoLocator


def grid(
    figure: MplFigure, panels: int, columns: int, *, right: float = 0.1, above: float = 0.3, title_lines: int = 1
) -> list[Any]:
    """Return axes for panels with titles, in rows; ``right`` inches beside each, and ``above`` the titles, are free."""
    rows = max(-(-panels // columns), 1)
    width, height = figure.get_size_inches()
    left, below = LEFT, 0.22  # inches, of the numbers along the axes
    above += title_lines * TITLE
    gap = 0.3 + title_lines * TITLE  # between rows: numbers, and the next title
    across, down = (width - 0.05) / columns, (height - above - below + gap) / rows
    return [
        figure.add_axes(
            (
                (index % columns * across + left) / width,
                1 - (above + (index // columns + 1) * down - gap) / height,
                (across - left - right) / width,
                (down - gap) / height,
            )
        )
        for index in range(panels)
    ]


def label_ends(axes: Any, labels: Sequence[tuple[float, str, str]]) -> None:
    """Write a label beside the axes at each height, with its colour; those that would collide are moved apart.

    Set the axes' limits first. ``labels`` are heights, texts and colours.
    """
    low, high = axes.get_ylim()
    inches = axes.get_figure().get_figheight() * axes.get_position().height
    step = LINE / inches  # of a line, as a share of the axes
    places = [min(max((height - low) / (high - low), 0.0), 1.0) for height, _, _ in labels]
    order = sorted(range(len(labels)), key=places.__getitem__)
    for index, place in zip(order, _apart([places[index] for index in order], step), strict=True):
        _, text, colour = labels[index]
        axes.annotate(
            plain(text),
            (1.0, place),
            xycoords="axes fraction",
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=SMALL - 0.5,
            color=colour,
            va="center",
            annotation_clip=False,
        )


def _apart(places: Sequence[float], step: float) -> list[float]:
    """Return ascending places moved at least a step apart, and so far below 1 that a line ends there."""
    apart: list[float] = []
    for place in places:
        apart.append(max(place, apart[-1] + step) if apart else place)
    limit = 1.0 - 0.4 * step
    for index in reversed(range(len(apart))):
        apart[index] = min(apart[index], limit)
        limit = apart[index] - step
    return apart


def cut(text: str, inches: float) -> str:
    """Return a text that fits into this many inches of small letters: of one too long the middle is left out."""
    letters = max(int(inches / LETTER), 3)
    if len(text) <= letters:
        return text
    head = (letters - 1) // 2
    return f"{text[:head].rstrip()}…{text[len(text) - (letters - 1 - head) :].lstrip()}"


def plain(text: str) -> str:
    """Return a text that matplotlib does not parse as a formula."""
    return text.replace("$", r"\$")


def shortened(names: Sequence[str]) -> list[str]:
    """Return snapshots' ids without padding zeros: main-000120 becomes main-120."""
    short = []
    for name in names:
        head, dash, step = name.rpartition("-")
        short.append(f"{head}-{int(step)}" if dash and step.isdecimal() else name)
    return short
