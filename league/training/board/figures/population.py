"""The pictures of the population: who descends from whom, each player's weight in the mixture, and ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from league.training.board.figures.canvas import (
    COLOURS,
    INK,
    LETTER,
    LINE,
    PALE,
    SMALL,
    WIDTH,
    MplFigure,
    cut,
    label_ends,
    new_figure,
    plain,
    shortened,
    tidy,
)
from league.training.board.figures.charts import draw_areas

ORIGIN_COLOURS = {
    "start": INK,
    "trained": COLOURS[0],
    "reset": COLOURS[1],
    "response": COLOURS[2],
    "exploiter": COLOURS[3],
    "distilled": COLOURS[4],
    "merged": COLOURS[5],
    "crossed": COLOURS[6],
}
ORIGINS_IN_A_LINE = 5  # of the legend
MOST_BANDS = 9  # players with their own area, the heaviest now; the others share one


class Descendant(NamedTuple):
    """One snapshot in the tree."""

    name: str
    policy: str
    step: int
    parent: str | None
    origin: str
    retired: bool


class Rated(NamedTuple):
    """A rated player: snapshots have a step, anchors none."""

    name: str
    policy: str
    step: int | None
    mean: float
    error: float  # standard deviation


def draw_tree(title: str, snapshots: Sequence[Descendant]) -> MplFigure:
    """Return the population as a tree over iterations: one row per policy, edges from parents by origin."""
    policies = list(dict.fromkeys(snapshot.policy for snapshot in snapshots))
    figure = new_figure(title)
    height = figure.get_figheight()
    left = (0.15 + LETTER * max(len(cut(policy, 1.2)) for policy in policies)) / WIDTH if policies else 0.1
    below = 0.5 + LINE * -(-len({snapshot.origin for snapshot in snapshots}) // ORIGINS_IN_A_LINE)
    axes = figure.add_axes((left, below / height, 0.97 - left, 1 - (below + 0.37) / height))
    position = {s.name: (s.step, policies.index(s.policy)) for s in snapshots}
    for snapshot in snapshots:
        colour = ORIGIN_COLOURS[snapshot.origin]
        if snapshot.parent in position:
            bend = 0.0 if position[snapshot.parent][1] == position[snapshot.name][1] else 0.15
            if snapshot.origin in ("reset", "response"):
                bend = 0.25
            axes.annotate(
                "",
                position[snapshot.name],
                position[snapshot.parent],
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": colour,
                    "lw": 0.9,
                    "shrinkA": 2,
                    "shrinkB": 2,
                    "connectionstyle": f"arc3,rad={bend}",
                },
            )
    for origin, colour in ORIGIN_COLOURS.items():
        of_origin = [snapshot for snapshot in snapshots if snapshot.origin == origin]
        if of_origin:
            faces = ["white" if snapshot.retired else colour for snapshot in of_origin]
            x, y = zip(*(position[snapshot.name] for snapshot in of_origin), strict=True)
            axes.scatter(x, y, s=14, c=faces, edgecolors=colour, zorder=3, label=f"{origin} ({len(of_origin)})")
    axes.set_yticks(range(len(policies)), [plain(cut(policy, 1.2)) for policy in policies])
    axes.set_ylim(len(policies) - 0.4, -0.6)
    axes.margins(x=0.04)
    tidy(axes, x_label="iteration")
    figure.legend(
        fontsize=SMALL, frameon=False, loc="lower center", ncols=ORIGINS_IN_A_LINE, handletextpad=0.0, columnspacing=0.5
    )
    return figure


def draw_mixture_of_seats(
    title: str, steps: Sequence[int], seats: Sequence[Sequence[Mapping[str, float]]]
) -> MplFigure:
    """Return ``draw_mixture`` of the means over seats.  # seats: [T][seats]"""
    weights = []
    for at_step in seats:
        players = dict.fromkeys(player for seat in at_step for player in seat)
        weights.append({p: sum(seat.get(p, 0.0) for seat in at_step) / len(at_step) for p in players})
    return draw_mixture(title, steps, weights)


def draw_mixture(title: str, steps: Sequence[int], weights: Sequence[Mapping[str, float]]) -> MplFigure:
    """Return the weight of each player in a meta-strategy over iterations, as areas that sum to one."""
    players = list(dict.fromkeys(player for at_step in weights for player in at_step))
    chosen = sorted(sorted(players, key=lambda player: _rank(player, players, weights))[:MOST_BANDS])
    rows = [[at_step.get(player, 0.0) for at_step in weights] for player in chosen]
    names = [cut(name, 1.1) for name in shortened(chosen)]
    labels = [f"{weights[-1].get(player, 0.0):.0%} {name}" for player, name in zip(chosen, names, strict=True)]
    if len(players) > len(chosen):
        rows.append([max(1.0 - sum(column), 0.0) for column in zip(*rows, strict=True)])
        labels.append(f"{rows[-1][-1]:.0%} {len(players) - len(chosen)} others")
    figure = new_figure(title)
    axes = figure.add_axes((0.065, 0.2, 0.68, 0.66))
    draw_areas(figure, axes, steps, rows, labels, [*COLOURS[: len(chosen)], "#d0d0d0"])
    return figure


def _rank(player: str, players: Sequence[str], weights: Sequence[Mapping[str, float]]) -> tuple[float, float, int]:
    """Return by what players are chosen: their weight now, in percent, then the sum of their weights, then youth."""
    total = sum(at_step.get(player, 0.0) for at_step in weights)
    now = round(weights[-1].get(player, 0.0), 2)
    return -now, 0.0 if now else -total, -players.index(player)


def draw_ratings(title: str, players: Sequence[Rated]) -> MplFigure:
    """Return the ratings of snapshots by iteration with bands of 95 %, and anchors as lines."""
    figure = new_figure(title)
    policies = list(dict.fromkeys(player.policy for player in players if player.step is not None))
    anchors = [player for player in players if player.step is None]
    right = 0.2 + LETTER * max((len(cut(name, 1.2)) for name in [*policies, *(a.name for a in anchors)]), default=0)
    axes = figure.add_axes((0.09, 0.2, 0.9 - right / WIDTH, 0.66))
    ends = []
    for colour, policy in zip(COLOURS, policies, strict=False):
        of_policy = [player for player in players if player.policy == policy and player.step is not None]
        steps = [player.step or 0 for player in of_policy]
        low, high = ([p.mean + sign * 1.96 * p.error for p in of_policy] for sign in (-1, 1))
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(steps, [player.mean for player in of_policy], color=colour, lw=1.5, marker="o", ms=2)
        ends.append((of_policy[-1].mean, cut(policy, 1.2), colour))
    for anchor in anchors:
        axes.axhline(anchor.mean, color=PALE, lw=1, ls="--")
        ends.append((anchor.mean, cut(anchor.name, 1.2), PALE))
    axes.margins(y=0.1)
    label_ends(axes, ends)
    tidy(axes, x_label="iteration of the snapshot", y_label="rating, 95 % band")
    return figure
