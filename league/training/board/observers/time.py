"""The figure of a run's time: the share of each phase, and memory."""

from __future__ import annotations

from functools import partial

from league.training.board.figures.canvas import Drawing
from league.training.board.figures.charts import draw_shares
from league.training.board.observer import Figure, FigureData
from league.training.board.questions import CHANGE
from league.training.monitors.phases import PHASES


def time(data: FigureData, _: str) -> Drawing:
    """Draw where the time goes: the share of each phase of the loop."""
    lines = [line for line in data.history if "time/rest" in line]
    phases = [phase for phase in PHASES if any(line.get(f"time/{phase}", 0.0) > 0.0 for line in lines)]
    seconds = [line.get("seconds", 1.0) for line in lines]
    means = {
        phase: sum(s * line.get(f"time/{phase}", 0.0) for s, line in zip(seconds, lines, strict=True)) / sum(seconds)
        for phase in phases
    }
    sampled = lines[:: -(-len(lines) // 200)]
    parts = {phase: [line.get(f"time/{phase}", 0.0) for line in sampled] for phase in phases}
    last = lines[-1] if lines else {}
    most = max((value for name, value in last.items() if name.startswith("memory/")), default=0.0)
    note = f"legend: of the whole run; memory {most:,.0f} MiB; logging {last.get('time/board', 0.0):.1%} of the time"
    return partial(draw_shares, "Where does the time go?", [line["iteration"] for line in sampled], parts, means, note)


TIME_FIGURE = Figure(
    time,
    question=CHANGE,
    games=lambda data: ("",) if any("time/rest" in line for line in data.history) else (),
    metrics=(r"time/.+", r"memory/.+", r"seconds"),
    pinned=True,
)
