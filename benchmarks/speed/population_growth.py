"""What a training iteration costs with 8 and with 512 snapshots in the population, saves included.

    python -m benchmarks.speed.population_growth [--sizes 8 512] [--repeats N] [--preset NAME] [--json]

Both leagues start with equal weights and continue from the same iteration of the same configuration. Their
snapshots are copies of one, each with an id of its own, with results, ratings and exact tables such as a
run leaves. No snapshot's hash is left to check, as in the process that froze them (after a resume, each is
checked when it is first drawn). The leagues take turns, so that other load on the machine affects both; a
ratio is taken within a turn. ``iteration`` is the median of a turn's iterations between two snapshots;
``snapshot`` is that of iterations in which a snapshot is frozen, rated and measured, too. ``ratio`` is of
seconds on the clock, ``cpu_ratio`` of this process's own, without other programs and waits for the disk.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from arena.process import tuned_process
from benchmarks.speed.timing import Figures, print_figures, speed_parser, spread
from league.config import load as settings
from league.config.context import RunContext, run_context
from league.population.results.payoffs import Result
from league.population.results.ratings import Ratings
from league.population.storage.run_dir import STATE_FOLDER
from league.training.checkpoints.checkpoint import clear_state
from league.training.checkpoints.run_state import RunState, new_state
from league.training.learning.policies import start_policies
from league.training.loop.interrupt import StopRequest
from league.training.loop.loop import League, run_loop
from league.training.monitors.alarms import Alarm
from league.training.monitors.live_view import LiveView

OVERRIDES = [
    "iterations=1000000",
    "threads=1",  # two threads on a busy core wait for each other longer than what is measured takes
    "matchmaking.opponents=4",  # they stay loaded in a small population, and are loaded again in a large one
]
TURN_ITERATIONS = {"iteration": 9, "snapshot": 3}  # timed, after one that is not


class IterationTimer:
    """The loop's live view and stop request in one: it times iterations, then stops the loop."""

    def __init__(self, iterations: int) -> None:
        self._left = iterations
        self._times: list[tuple[float, float]] = []
        self.requested = False

    def update(self, iteration: int, metrics: Mapping[str, float], alarms: Sequence[Alarm] = ()) -> None:
        """Record the end of an iteration, before it is saved."""
        self._times.append((time.perf_counter(), time.process_time()))
        self._left -= 1
        self.requested = self._left == 0

    def print_line(self, text: str) -> None:
        """Show nothing, as all of this view."""

    def medians(self) -> tuple[float, float]:
        """Return the median seconds of an iteration, the first left out: on the clock, and of the process."""
        clock, process = zip(*self._times, strict=True)
        return _median_step(clock), _median_step(process)


def _median_step(times: Sequence[float]) -> float:
    return statistics.median(end - start for start, end in itertools.pairwise(times))


def populated(context: RunContext, size: int) -> RunState:
    """Return the state of a run that has frozen and rated ``size`` snapshots."""
    config, run_dir, roles = context.config, context.run_dir, context.roles
    run_dir.mkdir()
    clear_state(run_dir)
    state = new_state(config, run_dir, start_policies(context))
    League(context, state).snapshot(0)
    (first,) = state.population.all()
    ids = [first.id]
    for step in range(1, size):
        copy = state.population.add(first.policy, step, ids[-1], lambda folder: _link(first.path, folder))
        for table in (run_dir / STATE_FOLDER / "tables").glob(f"{first.id}.*"):
            os.link(table, table.with_name(table.name.replace(first.id, copy.id)))
        ids.append(copy.id)
    pairs = {
        (a, b) for i, a in enumerate(ids) for b in [*ids[max(i - 2, 0) : i], *config.evaluation.anchors, first.policy]
    }
    pairs |= {(b, a) for a, b in pairs}
    rows = [(*pair, game, role.name) for pair in sorted(pairs) for game, seated in roles.items() for role in seated]
    state.unsaved = [Result(*row, n=8, sum_return=0.0, sumsq_return=8.0, sum_score=4.0, iteration=0) for row in rows]
    state.payoffs.apply(state.unsaved)
    rated = {game: dict.fromkeys(ids, (25.0, 5.0)) for game in roles}
    state.ratings = Ratings.from_json({"anchors": config.evaluation.anchors, "ratings": rated})
    return state


def _link(source: Path, folder: Path) -> None:
    """Fill a snapshot's folder with another's files, under new names for the same bytes."""
    for path in source.iterdir():
        if path.name != "snapshot.json":
            os.link(path, folder / path.name)


def measure(preset: str, sizes: tuple[int, int], repeats: int, folder: Path) -> Figures:
    """Return seconds by kind of iteration and size, and their ratios, over the turns."""
    config = settings.load(preset, OVERRIDES)
    contexts = {size: run_context(config, folder / str(size)) for size in sizes}
    states = {size: populated(context, size) for size, context in contexts.items()}
    for state in states.values():
        state.iteration = max(sizes)
    times: dict[str, list[float]] = {}
    for kind, snapshot_every in (("iteration", 1_000_000), ("snapshot", 1)):
        often = config.model_copy(update={"snapshot_every": snapshot_every})
        leagues = {size: League(replace(contexts[size], config=often), state) for size, state in states.items()}
        for _ in range(repeats):
            turn = [_turn(league, TURN_ITERATIONS[kind]) for league in leagues.values()]
            (small, small_cpu), (large, large_cpu) = turn
            figures = {
                f"{sizes[0]}": small,
                f"{sizes[1]}": large,
                "ratio": large / small,
                "cpu_ratio": large_cpu / small_cpu,
            }
            for name, value in figures.items():
                times.setdefault(f"{kind}_{name}", []).append(value)
    return spread(times)


def _turn(league: League, iterations: int) -> tuple[float, float]:
    """Return the median seconds of a league's next iterations, on the clock and of the process."""
    timer = IterationTimer(iterations + 1)
    with tuned_process(league.config.threads):
        league.view = cast(LiveView, timer)
        run_loop(league, cast(StopRequest, timer))
    return timer.medians()


def main() -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs=2, default=[8, 512], metavar=("SMALL", "LARGE"))
    parser.add_argument("--repeats", type=int, default=5, help="turns of each league")
    parser.add_argument("--preset", default="pocket-returns")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="population-growth-"))
    try:
        figures = measure(arguments.preset, tuple(arguments.sizes), arguments.repeats, folder)
    finally:
        shutil.rmtree(folder)
    print_figures(figures, "seconds", ",.3f", as_json=arguments.json)


if __name__ == "__main__":
    main()
