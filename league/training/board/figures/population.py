"""The pictures of the population: who descends from whom, each player's weight in the mixture, and ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from league.training.board.figures.canvas import (
    COLOURS,
    INK,
    PALE,
    SMALL,
    MplFigure,
    new_figure,
    plain,
    shortened,
    tidy,
)

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
MOST_BANDS = 9  # players with their own area; the others share one


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
    axes = figure.add_axes((0.11, 0.56 / height, 0.86, 1 - 0.9 / height))
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
    axes.set_yticks(range(len(policies)), [plain(policy) for policy in policies])
    axes.set_ylim(len(policies) - 0.4, -0.6)
    axes.margins(x=0.04)
    tidy(axes, x_label="iteration")
    figure.legend(fontsize=SMALL, frameon=False, loc="lower center", ncols=6, handletextpad=0.0, columnspacing=0.5)
    return figure


def draw_mixture(title: str, steps: Sequence[int], weights: Sequence[Mapping[str, float]]) -> MplFigure:
    """Return the weight of each player in a meta-strategy over iterations, as areas that sum to one."""
    totals: dict[str, float] = {}
    for at_step in weights:
        for player, weight in at_step.items():
            totals[player] = totals.get(player, 0.0) + weight
    chosen = sorted(sorted(totals, key=lambda player: -totals[player])[:MOST_BANDS])
    rows = [[at_step.get(player, 0.0) for at_step in weights] for player in chosen]
    labels = shortened(chosen)
    if len(totals) > len(chosen):
        rows.append([max(1.0 - sum(column), 0.0) for column in zip(*rows, strict=True)])
        labels.append(f"{len(totals) - len(chosen)} others")
    figure = new_figure(title)
    axes = figure.add_axes((0.075, 0.15, 0.68, 0.72))
    colours = [*COLOURS[: len(chosen)], "#d0d0d0"]
    if len(steps) == 1:
        steps, rows = [steps[0], steps[0] + 1], [[row[0], row[0]] for row in rows]
    axes.stackplot(steps, rows, labels=[plain(label) for label in labels], colors=colours, step=None)
    axes.set_ylim(0, 1)
    axes.set_xlim(steps[0], steps[-1])
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], fontsize=SMALL, frameon=False, loc="center right", handlelength=1)
    tidy(axes, x_label="iteration")
    return figure


def draw_ratings(title: str, players: Sequence[Rated]) -> MplFigure:
    """Return the ratings of snapshots by iteration with bands of 95 %, and anchors as lines."""
    figure = new_figure(title)
    axes = figure.add_axes((0.1, 0.15, 0.87, 0.72))
    policies = dict.fromkeys(player.policy for player in players if player.step is not None)
    for colour, policy in zip(COLOURS, policies, strict=False):
        of_policy = [player for player in players if player.policy == policy and player.step is not None]
        steps = [player.step or 0 for player in of_policy]
        low, high = ([p.mean + sign * 1.96 * p.error for p in of_policy] for sign in (-1, 1))
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(
            steps, [player.mean for player in of_policy], color=colour, lw=1.5, marker="o", ms=2, label=plain(policy)
        )
    for player in players:
        if player.step is None:
            axes.axhline(player.mean, color=PALE, lw=1, ls="--")
            axes.text(
                1.0,
                player.mean,
                plain(player.name),
                fontsize=SMALL,
                color=PALE,
                ha="right",
                va="bottom",
                transform=axes.get_yaxis_transform(),
            )
    axes.legend(fontsize=SMALL, frameon=False, loc="upper left", ncols=3, handlelength=1)
    axes.margins(y=0.15)
    tidy(axes, x_label="iteration of the snapshot", y_label="rating, 95 % band")
    return figure
