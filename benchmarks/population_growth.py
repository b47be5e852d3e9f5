"""What a training iteration costs with 8 and with 512 snapshots in the population, saves included.

    python -m benchmarks.population_growth [--sizes 8 512] [--repeats N] [--preset NAME] [--json]

Both leagues begin with equal weights and go on from the same iteration of the same configuration. Their
snapshots are copies of one, under ids of their own, with results, ratings and exact tables such as a run
leaves; as in the process that froze them, no hash is left to check (after a resume, each is checked when
it is first drawn). They take turns, so that whatever else the machine does meets both of them; a ratio is
taken within a turn. ``iteration`` is the median of a turn's iterations between two snapshots; ``snapshot``
is an iteration in which a snapshot is frozen, rated and measured, too. ``ratio`` is of seconds on the
clock, ``cpu_ratio`` of this process's own, which other programs do not lengthen, and which waits for no disk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from games.registry import make_game
from league import settings
from league.config import RunConfig
from league.interrupt import StopRequest
from league.payoffs import Result
from league.prepared import prepared_process
from league.progress import Progress
from league.ratings import Ratings
from league.run_state import RunState, begin_state, new_state
from league.runs import STATE_FOLDER
from league.start import Roles, start_policies
from league.train import League, run_loop

Figures = dict[str, dict[str, float]]

OVERRIDES = [
    "iterations=1000000",
    "threads=1",  # two that share a busy core wait for each other far longer than what is measured here takes
    "matchmaking.opponents=4",  # in a small population they stay loaded, in a large one each is loaded anew
]
IN_A_TURN = {"iteration": 9, "snapshot": 3}  # iterations that are timed, after one that is not


class Watch:
    """Stands where the loop expects its live view and its stop request: times iterations, then stops."""

    def __init__(self, iterations: int) -> None:
        self._left = iterations
        self._times: list[tuple[float, float]] = []
        self.asked = False

    def update(self, done: int, metrics: Mapping[str, float]) -> None:
        """Note the end of an iteration, which has been saved."""
        self._times.append((time.perf_counter(), time.process_time()))
        self._left -= 1
        self.asked = self._left == 0

    def medians(self) -> tuple[float, float]:
        """Return the median seconds of an iteration, the first left out: on the clock, and of the process."""
        clock, process = zip(*self._times, strict=True)
        return _median_step(clock), _median_step(process)


def _median_step(times: Sequence[float]) -> float:
    return statistics.median(end - start for start, end in itertools.pairwise(times))


def populated(config: RunConfig, roles: Roles, run_dir: Path, size: int) -> RunState:
    """Return the state of a run that has frozen and rated ``size`` snapshots."""
    run_dir.mkdir()
    begin_state(run_dir)
    state = new_state(config, run_dir, start_policies(config, roles))
    League(config, run_dir, roles, state).snapshot(0)
    (first,) = state.population.all()
    ids = [first.id]
    for step in range(1, size):
        copy = state.population.add(first.policy, step, ids[-1], lambda folder: _link(first.path, folder))
        for table in (run_dir / STATE_FOLDER / "tables").glob(f"{first.id}.*"):
            os.link(table, table.with_name(table.name.replace(first.id, copy.id)))
        ids.append(copy.id)
    met = {
        (a, b) for i, a in enumerate(ids) for b in [*ids[max(i - 2, 0) : i], *config.evaluation.anchors, first.policy]
    }
    met |= {(b, a) for a, b in met}
    rows = [(*pair, game, role.name) for pair in sorted(met) for game, seated in roles.items() for role in seated]
    state.news = [Result(*row, n=8, sum_return=0.0, sumsq_return=8.0, sum_score=4.0, iteration=0) for row in rows]
    state.payoffs.apply(state.news)
    rated = {game: dict.fromkeys(ids, (25.0, 5.0)) for game in roles}
    state.ratings = Ratings.from_json({"anchors": config.evaluation.anchors, "ratings": rated})
    return state


def _link(source: Path, folder: Path) -> None:
    """Fill a snapshot's folder with another's files, under new names for the same bytes."""
    for path in source.iterdir():
        if path.name != "snapshot.json":
            os.link(path, folder / path.name)


def measure(preset: str, sizes: tuple[int, int], repeats: int, folder: Path) -> Figures:
    """Return min, median and max over the turns of seconds by kind of iteration and size, and of their ratios."""
    config = settings.load(preset, OVERRIDES)
    roles = {game: settings.seat_roles(config.roles, make_game(game).spec) for game in config.games}
    states = {size: populated(config, roles, folder / str(size), size) for size in sizes}
    for state in states.values():
        state.iteration = max(sizes)
    found: dict[str, list[float]] = {}
    for kind, every in (("iteration", 1_000_000), ("snapshot", 1)):
        leagues = {
            size: League(config.model_copy(update={"snapshot_every": every}), folder / str(size), roles, state)
            for size, state in states.items()
        }
        for _ in range(repeats):
            turn = [_turn(league, IN_A_TURN[kind]) for league in leagues.values()]
            (small, small_cpu), (large, large_cpu) = turn
            figures = {
                f"{sizes[0]}": small,
                f"{sizes[1]}": large,
                "ratio": large / small,
                "cpu_ratio": large_cpu / small_cpu,
            }
            for name, value in figures.items():
                found.setdefault(f"{kind}_{name}", []).append(value)
    return {
        name: {"min": min(values), "median": statistics.median(values), "max": max(values)}
        for name, values in found.items()
    }


def _turn(league: League, iterations: int) -> tuple[float, float]:
    """Return the median seconds of so many iterations of a league, on the clock and of the process."""
    watch = Watch(iterations + 1)
    with prepared_process(league.config.threads):
        run_loop(league, cast(Progress, watch), cast(StopRequest, watch))
    return watch.medians()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs=2, default=[8, 512], metavar=("SMALL", "LARGE"))
    parser.add_argument("--repeats", type=int, default=5, help="turns of each league")
    parser.add_argument("--preset", default="pocket")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="population-growth-"))
    try:
        result = measure(arguments.preset, tuple(arguments.sizes), arguments.repeats, folder)
    finally:
        shutil.rmtree(folder)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{'':20}{'min':>10}{'median':>10}{'max':>10}")
    for name, figures in result.items():
        unit = "" if name.endswith("ratio") else " s"
        print(f"{name:20}" + "".join(f"{figures[key]:>10.3f}{unit}" for key in ("min", "median", "max")))


if __name__ == "__main__":
    main()
