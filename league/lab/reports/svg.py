"""Charts as SVG by hand: lines with bands and intervals, and trees. Colours are classes of the page's style.

The board's figures use matplotlib, and these do not: a report draws every metric of a run, 170 charts for `pocket`.
matplotlib takes 0.1 s and 11 kB for each, so a page of 0.26 MB would grow to 1.9 MB and take 16 s longer to write.
These charts take half a millisecond and 1 kB, describe a point on hover, and have the page's colours in light and dark
mode.

All texts are escaped by ``Markup``; coordinates are whole or tenths of pixels, to keep pages small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

WIDTH, HEIGHT = 340.0, 170.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 8.0, 8.0, 22.0  # margins
MOST_POINTS = 300  # of a line; if it has more, the least and greatest of each stretch are drawn
COLOURS = 6


class Line(NamedTuple):
    """A line of a chart; points with intervals are drawn as dots with bars."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    errors: Sequence[float] | None = None  # half-widths of intervals
    colour: int | None = None  # its number, below ``COLOURS``; None: by the line's place in the chart


class Box(NamedTuple):
    """The ranges of a chart's axes."""

    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        """Return the pixel of a value."""
        return LEFT + (value - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the pixel of a value."""
        return TOP + (self.y1 - value) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)


def line_chart(
    lines: Sequence[Line],
    title: str,
    *,
    y_range: tuple[float, float] | None = None,
    band: tuple[float, float] | None = None,
    marks: Sequence[float] = (),
) -> Markup:
    """Return a chart of lines over iterations.

    ``band`` is shaded, and drawn as a line where it has no height; ``marks`` are values that the axis must include.
    """
    box = _box(lines, y_range, (*marks, *(band or ())))
    parts = [_axes(box)]
    if band is not None:
        parts.append(_band(box, band))
    for number, line in enumerate(lines):
        colour = number % COLOURS if line.colour is None else line.colour
        parts.append(_dots(box, line, colour) if line.errors else _path(box, line, colour))
    return Markup('<svg viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, title, Markup("").join(parts)
    )


def thinned(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
    """Return at most about ``MOST_POINTS`` points, with the least and greatest of each stretch among them."""
    points = list(zip(xs, ys, strict=True))
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(len(points) / (MOST_POINTS / 2))
    extremes = []
    for start in range(0, len(points), size):
        stretch = range(start, min(start + size, len(points)))
        extremes += sorted({min(stretch, key=ys.__getitem__), max(stretch, key=ys.__getitem__)})
    return [points[index] for index in sorted({0, *extremes, len(points) - 1})]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers in a range, at steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _box(lines: Sequence[Line], y_range: tuple[float, float] | None, more: Sequence[float]) -> Box:
    xs = [x for line in lines for x in (line.xs[0], line.xs[-1])] or [0.0]
    lows = [y - e for line in lines for y, e in zip(line.ys, line.errors or [0.0] * len(line.ys), strict=True)]
    highs = [y + e for line in lines for y, e in zip(line.ys, line.errors or [0.0] * len(line.ys), strict=True)]
    low, high = y_range or (min([*lows, *more], default=0.0), max([*highs, *more], default=1.0))
    if high - low < 1e-9 * max(abs(high), 1.0):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    room = 0.0 if y_range else 0.04 * (high - low)
    return Box(min(xs), max(max(xs), min(xs) + max(1.0, 1e-9 * abs(min(xs)))), low - room, high + room)


def _axes(box: Box) -> Markup:
    """Return the axes with their numbers."""
    parts = []
    for value in ticks(box.y0, box.y1, 4):
        y = box.y(value)
        parts.append(Markup('<path class="axis" d="M{:g} {:.1f}H{:g}"/>').format(LEFT, y, WIDTH - RIGHT))
        parts.append(
            Markup('<text x="{:g}" y="{:.1f}" text-anchor="end">{}</text>').format(LEFT - 5, y + 3.5, _number(value))
        )
    for value in ticks(box.x0, box.x1, 5):
        if value == int(value):
            x = min(box.x(value), WIDTH - RIGHT - 6)
            parts.append(
                Markup('<text x="{:.1f}" y="{:g}" text-anchor="middle">{}</text>').format(x, HEIGHT - 6, _number(value))
            )
    return Markup("").join(parts)


def _band(box: Box, band: tuple[float, float]) -> Markup:
    top, bottom = box.y(band[1]), box.y(band[0])
    single = bottom - top < 2.5  # then it is a thick line
    height = 2.5 if single else bottom - top
    return Markup('<rect class="band{}" x="{:g}" y="{:.1f}" width="{:g}" height="{:.1f}"/>').format(
        " single" if single else "", LEFT, (top + bottom - height) / 2, WIDTH - LEFT - RIGHT, height
    )


def _path(box: Box, line: Line, colour: int) -> Markup:
    points = [f"{box.x(x):.1f} {box.y(y):.1f}" for x, y in thinned(line.xs, line.ys)]
    last = _number(line.ys[-1])
    if len(points) == 1:
        x, y = points[0].split()
        return Markup('<circle class="f{}" cx="{}" cy="{}" r="3"><title>{}: {}</title></circle>').format(
            colour, x, y, line.label, last
        )
    return Markup('<path class="line s{}" d="M{}"><title>{}: {} at the end</title></path>').format(
        colour, "L".join(points), line.label, last
    )


def _dots(box: Box, line: Line, colour: int) -> Markup:
    """Return points with their intervals."""
    parts = []
    for x, y, error in zip(line.xs, line.ys, line.errors or (), strict=True):
        parts.append(
            Markup(
                '<g><title>{} {}: {} ± {}</title><path class="edge s{}" d="M{:.1f} {:.1f}V{:.1f}"/>'
                '<circle class="f{}" cx="{:.1f}" cy="{:.1f}" r="2.2"/></g>'
            ).format(
                line.label, _number(x), _number(y), _number(error), colour,
                box.x(x), box.y(y - error), box.y(y + error), colour, box.x(x), box.y(y),
            )
        )  # fmt: skip
    return Markup("").join(parts)


def _number(value: float) -> str:
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "0" if text in ("-0", "0") else text.replace("-", "−")
