"""Which snapshot descends from which, and how: the population as a tree over the iterations, a lane for each policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from league.lab.reports.svg import COLOURS, ticks
from league.population.storage.population import HOW, Origin, Snapshot, parents_of

WIDTH, LANE, TOP, BOTTOM, RIGHT = 1100.0, 58.0, 22.0, 26.0, 24.0
LETTER = 6.6  # pixels, about
UNUSUAL = {
    Origin.RESET: "reset",
    Origin.RESPONSE: "response",
    Origin.EXPLOITER: "exploiter",
    Origin.DISTILLED: "distilled",
    Origin.MERGED: "merged",
    Origin.CROSSED: "crossed",
}


class PopulationTree(NamedTuple):
    """The drawing and its legend."""

    svg: Markup
    origins: list[tuple[str, str, int]]  # name, meaning and number of snapshots, of those that occur


def population_tree(snapshots: Sequence[Snapshot]) -> PopulationTree:
    """Return the tree of a population with at least one snapshot."""
    policies = list(dict.fromkeys(snapshot.policy for snapshot in snapshots))
    left = 14 + LETTER * max(map(len, policies))
    end = max(max(snapshot.step for snapshot in snapshots), 1)
    height = TOP + LANE * len(policies) + BOTTOM
    points = {
        snapshot.id: (
            left + 12 + snapshot.step / end * (WIDTH - left - RIGHT - 12),
            TOP + LANE * (policies.index(snapshot.policy) + 0.5),
        )
        for snapshot in snapshots
    }
    parts = [_lane(policy, number, left) for number, policy in enumerate(policies)]
    parts += [_edge(snapshot, points, policies) for snapshot in snapshots if snapshot.parent in points]
    parts += [_node(snapshot, points, policies) for snapshot in snapshots]
    for value in ticks(0.0, float(end), 8):
        x = left + 12 + value / end * (WIDTH - left - RIGHT - 12)
        parts.append(Markup('<text x="{:.1f}" y="{:g}" text-anchor="middle">{:g}</text>').format(x, height - 6, value))
    svg = Markup('<svg class="tree" viewBox="0 0 {:g} {:g}" role="img" aria-label="population tree">{}</svg>').format(
        WIDTH, height, Markup("").join(parts)
    )
    counts = {origin: sum(snapshot.origin is origin for snapshot in snapshots) for origin in Origin}
    return PopulationTree(svg, [(origin.value, HOW[origin], number) for origin, number in counts.items() if number])


def _lane(policy: str, number: int, left: float) -> Markup:
    y = TOP + LANE * (number + 0.5)
    return Markup(
        '<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text><path class="axis" d="M{:.1f} {:.1f}H{:g}"/>'
    ).format(left, y + 4, policy, left + 6, y, WIDTH - RIGHT + 8)


def _edge(snapshot: Snapshot, points: dict[str, tuple[float, float]], policies: list[str]) -> Markup:
    """Return the line from a snapshot's parent; one that skips others or leaves its lane is an arc."""
    assert snapshot.parent is not None
    (x0, y0), (x1, y1) = points[snapshot.parent], points[snapshot.id]
    colour = policies.index(snapshot.policy) % COLOURS
    if snapshot.origin is Origin.TRAINED and y0 == y1:
        return Markup('<path class="line s{}" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>').format(colour, x0, y0, x1, y1)
    lift = min(y0, y1) - 24 if y0 == y1 else (y0 + y1) / 2
    return Markup(
        '<path class="edge s{}" stroke-dasharray="4 3" d="M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}"/>'
    ).format(colour, x0, y0, x0, lift, x1, lift, x1, y1)


def _node(snapshot: Snapshot, points: dict[str, tuple[float, float]], policies: list[str]) -> Markup:
    """Return a snapshot's dot, or a ring for one that did not come from continued training."""
    x, y = points[snapshot.id]
    colour = policies.index(snapshot.policy) % COLOURS
    what = Markup("<title>{}: {}{}</title>").format(
        snapshot.id, snapshot.how or HOW[snapshot.origin], f", from {parents_of(snapshot)}" if snapshot.parents else ""
    )
    if snapshot.origin in UNUSUAL:
        return Markup(
            '<g>{}<circle class="s{}" fill="none" stroke-width="2" cx="{:.1f}" cy="{:.1f}" r="4.5"/></g>'
        ).format(what, colour, x, y)
    return Markup('<circle class="f{}" cx="{:.1f}" cy="{:.1f}" r="3.2">{}</circle>').format(colour, x, y, what)
