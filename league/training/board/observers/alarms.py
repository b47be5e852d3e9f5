"""The figure of the alarms: which rang when, and which ring now."""

from __future__ import annotations

from functools import partial

from league.training.board.figures.alarms import Ringing, draw_alarms
from league.training.board.figures.canvas import Drawing
from league.training.board.observer import Figure, FigureData
from league.training.board.questions import BREAKING


def alarms(data: FigureData, _: str) -> Drawing:
    """Draw whether it is breaking: when each alarm rang, and which ring now."""
    rows = []
    for name in sorted(data.names("alarms/")):
        steps, values = data.series(name)
        short = name.removeprefix("alarms/")
        rang = [step for step, value in zip(steps, values, strict=True) if value]
        rows.append(Ringing(short, rang, [str(a) for a in data.alarms if a.name == short]))
    return partial(draw_alarms, "Is it breaking?", rows, data.iteration)


ALARMS_FIGURE = Figure(alarms, question=BREAKING, metrics=(r"alarms/.+",), pinned=True)
