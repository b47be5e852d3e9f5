"""Shared by all figures: size, colours and fonts, and a figure's pixels. No global state of matplotlib is changed.

TensorBoard shows an image in a card of about 330 by 215 pixels, so figures have that shape, and 8-point letters are as
large as the page's. Twice as many pixels are drawn for the enlarged view. In a card TensorBoard keeps only every second
pixel and so loses the thin strokes of letters; therefore each pixel is the mean of two by two.
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

WIDTH, HEIGHT, DPI = 4.4, 2.9, 150  # inches, inches, pixels an inch
SMALL, MEDIUM, LARGE = 7.0, 7.5, 8.5  # points
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
    sharp = np.pad(np.asarray(canvas.buffer_rgba())[..., :3].astype(np.uint16), ((0, 1), (0, 1), (0, 0)), mode="edge")
    return ((sharp[:-1, :-1] + sharp[1:, :-1] + sharp[:-1, 1:] + sharp[1:, 1:] + 2) // 4).astype(np.uint8)


def tidy(axes: Any, title: str = "", y_label: str = "", x_label: str = "") -> None:
    """Give axes the house style: few lines, small letters, titles on the left."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)
    axes.tick_params(labelsize=SMALL - 0.5, colors=INK, length=2, pad=1.5)
    if title:
        axes.set_title(plain(title), fontsize=MEDIUM, loc="left", color=INK, pad=2)
    axes.set_ylabel(y_label, fontsize=SMALL, color=INK, labelpad=2)
    axes.set_xlabel(x_label, fontsize=SMALL, color=INK, labelpad=1)


def grid(figure: MplFigure, panels: int, columns: int) -> list[Any]:
    """Return axes for ``panels`` panels, in rows."""
    rows = -(-panels // columns)
    height = figure.get_figheight()
    figure.subplots_adjust(
        left=0.085, right=0.965, top=1 - 0.45 / height, bottom=0.24 / height, wspace=0.28, hspace=0.5
    )
    return [figure.add_subplot(rows, columns, index + 1) for index in range(panels)]


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
