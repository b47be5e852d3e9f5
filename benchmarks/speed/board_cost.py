"""What the board costs a run: the same run with it and without, in turns, each in its own process.

    python -m benchmarks.speed.board_cost [--preset NAME] [--iterations N] [--repeats N] [--json]

``loop_ratio`` compares processor time of the loop's process, its threads included, ``processor_ratio`` that of the
whole run with the process that draws figures, and ``clock_ratio`` the wall time from start to end. Both runs import the
same and play the same matches. The seconds are those of one run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.speed.timing import Figures, print_figures, ratios, speed_parser, spread

# Prints processor seconds of this process, and of those that it has waited for, after the run's own output.
_PROGRAM = """
import json, os, sys
from league.cli import command
status = command()
times = os.times()
print(json.dumps([times.user + times.system, times.children_user + times.children_system]))
sys.exit(status)
"""


class Seconds(NamedTuple):
    """What one run took."""

    loop: float  # of the processor
    processor: float  # of all its processes
    clock: float


def run(preset: str, iterations: int, board: bool, folder: Path) -> Seconds:
    """Train once and return what it took."""
    words = ["train", preset, "--seed", "0", "--run-dir", str(folder), "--set", f"iterations={iterations}"]
    words += [] if board else ["--set", "board.time=0"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", _PROGRAM, *words], stdout=subprocess.PIPE, text=True, check=True)
    clock = time.perf_counter() - start
    loop, others = json.loads(done.stdout.splitlines()[-1])
    return Seconds(loop, loop + others, clock)


def measure(preset: str, iterations: int, repeats: int) -> Figures:
    """Return seconds with and without the board, and their ratios within each turn."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="board-cost-") as folder:
        for repeat in range(repeats):
            for name, board in (("without", False), ("with", True)):
                taken = run(preset, iterations, board, Path(folder) / f"{name}-{repeat}")
                for kind, value in taken._asdict().items():
                    seconds.setdefault(f"{kind}_{name}", []).append(value)
    kinds = Seconds._fields
    return spread(
        seconds | {f"{kind}_ratio": ratios(seconds[f"{kind}_with"], seconds[f"{kind}_without"]) for kind in kinds}
    )


def main() -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--preset", default="pocket-returns")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    figures = measure(arguments.preset, arguments.iterations, arguments.repeats)
    print_figures(figures, "seconds", ",.2f", as_json=arguments.json)


if __name__ == "__main__":
    main()
