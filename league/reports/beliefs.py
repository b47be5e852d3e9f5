"""What the asked seats believed as a match went on: their belief in the truth, in numbers and as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from arena.records import Episode
from league.reports.svg import COLOURS, Line, line_chart
from learners.beliefs import histories


class BeliefCurves(NamedTuple):
    """The curves of one probe: who was asked, and each one's belief in the truth over the turns of the match."""

    probe: str
    lines: tuple[Line, ...]  # of each asked seat; xs: how many turns came before; ys: probability of the truth
    svg: Markup


def belief_curves(episode: Episode, roles: Sequence[str]) -> tuple[BeliefCurves, ...]:
    """Return the curves of each probe that was asked; ``roles`` are those of all seats."""
    lines: dict[str, list[Line]] = {}
    for (probe, seat), beliefs in histories(episode).items():
        turns, truth = [belief.after for belief in beliefs], [belief.in_truth or 0.0 for belief in beliefs]
        lines.setdefault(probe, []).append(Line(roles[seat], turns, truth, colour=seat % COLOURS))
    return tuple(
        BeliefCurves(
            probe,
            tuple(mine),
            line_chart(mine, f"belief in the truth, probe {probe}", y_range=(0.0, 1.0)),
        )
        for probe, mine in lines.items()
    )
