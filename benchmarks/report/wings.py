"""The drawing of the page of the design, from the imports: ``python -m benchmarks.report.wings`` writes it.

Packages and wings stand on floors, each right below the lowest that imports it; an arrow is an import, and imports that
follow from two others are left out. What a box says is the first line of its ``__init__.py`` and the folders in it. The
same source gives the same bytes, and a test fails where the stored drawing is not what the source gives.
"""

from __future__ import annotations

import sys
import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

from benchmarks.report.house import Graph, Source, import_graph, read
from games.common.files import atomic_write

ROOT = Path(__file__).parents[2]
DRAWING = ROOT / "docs" / "extend" / "wings.svg"
# Lengths in pixels.
WIDTH, MARGIN, PADDING, LANE = 920, 24, 16, 56  # LANE: what boxes leave free for an arrow that passes them
NAME, LINE, GAP = 24, 17, 30  # heights of a name and of a line of text, and between two floors
CHARACTER = 6.6  # width of a letter, on average
STYLE = """
  svg { font-family: system-ui, -apple-system, "Segoe UI", sans-serif; font-size: 13px }
  .page { fill: #ffffff } .wing { fill: #e8f0fc; stroke: #2f6fc4 } .package { fill: #f2f2ef; stroke: #77756c }
  text { fill: #22252a } .name { font-size: 16px; font-weight: 600 } .rooms { fill: #4b525c }
  .arrow { stroke: #555b64; stroke-width: 1.5; fill: none } .tip { fill: #555b64 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #14171c } .wing { fill: #1b2b42; stroke: #6ea3e8 } .package { fill: #24262a; stroke: #97958c }
    text { fill: #e8eaed } .rooms { fill: #b3bac4 } .arrow { stroke: #a9b0ba } .tip { fill: #a9b0ba }
  }
"""


class Box(NamedTuple):
    """A package or wing on the page."""

    name: str
    left: float
    right: float
    top: float
    texts: tuple[tuple[str, str], ...]  # (class, line)

    @property
    def bottom(self) -> float:
        """Where the box ends."""
        return self.top + PADDING + NAME + LINE * len(self.texts)


def houses_graph(sources: list[Source]) -> dict[str, set[str]]:
    """Return which of the packages below ``league`` and the wings of it import which; ``league``'s root is not a
    wing.
    """
    houses = {source.module: source.place for source in sources if source.place != "league"}
    graph: dict[str, set[str]] = {house: set() for house in houses.values()}
    for module, others in import_graph(sources).items():
        if module in houses:
            graph[houses[module]] |= {houses[other] for other in others if other in houses} - {houses[module]}
    return graph


def without_shortcuts(graph: Graph) -> dict[str, set[str]]:
    """Return the imports of a graph without circles that do not follow from two others."""
    below: dict[str, set[str]] = {}

    def reached(name: str) -> set[str]:
        if name not in below:
            below[name] = set(graph[name]).union(*map(reached, graph[name]))
        return below[name]

    return {name: {o for o in others if not any(o in reached(x) for x in others)} for name, others in graph.items()}


def floors_from_above(graph: Graph) -> list[list[str]]:
    """Return the names by floor, the highest first: each right below the lowest that imports it."""
    left, built = dict(graph), list[list[str]]()
    while left:
        free = sorted(name for name in left if not any(name in others for others in left.values()))
        if not free:
            raise ValueError(f"these import each other in a circle: {', '.join(sorted(left))}")
        built.append(free)
        for name in free:
            del left[name]
    return built


def draw(root: Path) -> str:
    """Return the drawing of a checkout, as SVG."""
    sources = read(root)
    graph = without_shortcuts(houses_graph(sources))
    rows = floors_from_above(graph)
    floor = {name: number for number, row in enumerate(rows) for name in row}
    passing = sorted((floor[a], floor[b], a, b) for a in graph for b in graph[a] if floor[b] - floor[a] > 1)
    lanes = {(a, b): WIDTH - MARGIN - LANE * (number + 0.5) for number, (_, _, a, b) in enumerate(passing)}
    boxes, top = dict[str, Box](), float(MARGIN)
    for number, row in enumerate(rows):
        used = sum(above < number < below for above, below, _, _ in passing)
        row.sort(key=lambda name: (any(a == name for a, _ in lanes), name))  # the lanes are on the right
        width = (WIDTH - 2 * MARGIN - LANE * used + GAP) / len(row)
        placed = []
        for place, name in enumerate(row):
            left = MARGIN + width * place
            placed.append(Box(name, left, left + width - GAP, top, _texts(root, name, width - GAP)))
        boxes |= {box.name: box for box in placed}
        top = max(box.bottom for box in placed) + GAP
    parts = [_box(box) for box in boxes.values()]
    parts += [_arrow(boxes[a], boxes[b], lanes.get((a, b))) for a in sorted(graph) for b in sorted(graph[a])]
    height = round(top - GAP + MARGIN)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img">\n<title>Packages and wings, and what they import</title>\n<style>{STYLE}</style>\n'
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _texts(root: Path, name: str, width: float) -> tuple[tuple[str, str], ...]:
    """Return what a box says below its name, in lines that fit."""
    place = root / name
    said = Source(root, place / "__init__.py").doc.partition("\n")[0].replace("`", "")
    rooms = sorted(path.parent.name for path in place.glob("*/__init__.py"))
    characters = int((width - 2 * PADDING) / CHARACTER)
    lines = [("said", line) for line in textwrap.wrap(said, characters)]
    return (*lines, *[("rooms", line) for line in textwrap.wrap(" · ".join(rooms), characters)])


def _box(box: Box) -> str:
    kind = "wing" if "/" in box.name else "package"
    height = box.bottom - box.top
    parts = [
        f'<rect class="{kind}" x="{box.left:g}" y="{box.top:g}" width="{box.right - box.left:g}" height="{height:g}" '
        'rx="6"/>',
        f'<text class="name" x="{box.left + PADDING:g}" y="{box.top + NAME:g}">{escape(box.name)}</text>',
    ]
    for number, (style, line) in enumerate(box.texts, 1):
        y = box.top + NAME + LINE * number
        parts.append(f'<text class="{style}" x="{box.left + PADDING:g}" y="{y:g}">{escape(line)}</text>')
    return "\n".join(parts)


def _arrow(above: Box, below: Box, lane: float | None) -> str:
    """Return a straight arrow down, from what imports to what it imports."""
    x = (max(above.left, below.left) + min(above.right, below.right)) / 2 if lane is None else lane
    tip = below.top - 2
    return (
        f'<path class="arrow" d="M{x:g} {above.bottom:g}V{tip - 7:g}"/>'
        f'<path class="tip" d="M{x - 5:g} {tip - 8:g}h10l-5 8z"/>'
    )


if __name__ == "__main__":
    atomic_write(DRAWING, draw(ROOT))
    sys.exit(0)
