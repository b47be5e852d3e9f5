"""Which starts to play, in sums of growing size that a pocket model learns from nothing.

    python -m benchmarks.studies.tasks.sums starts [--seeds 0 1 2 3 4] [--keep DIR] [--workers 1] [--json]

Every run has the same number of reply tokens, those of a proposer included, and GRPO's groups. Two rules draw from a
pool of dealt starts; in the third condition a second policy writes all sums, paid by Agent0's shape, and the solver
attempts them. The figure is the share of held-out sums that the last snapshot gets right, all sizes alike; beside it
stand the frontier of the run's pool at its end, and the share of groups that taught nothing.

With --keep, an interrupted measurement continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from benchmarks.studies.tasks.figures import figures_of_log, shares_by_size
from benchmarks.studies.tasks.settings import COMMON, settings_of_authors
from league import open_run

DIGITS = 4
GAME = "sums(base=3)"
WRITER = "propose_sums(base=3,form=1,tasks=2)"
HELD_OUT = 600  # sums
TOKENS = 15_000  # of all replies, after which a run ends
COLUMNS = {  # by figure
    "1 digits": "1 digit",
    "2 digits": "2 digits",
    "3 digits": "3 digits",
    "4 digits": "4 digits",
    "solved": "starts solved",
    "out_of_reach": "out of reach",
    "frontier": "mean digits of the rest",
    "flat": "flat groups",
}
DEALT = {"games": {GAME: {"matches": 128}}}
CONDITIONS = {
    "uniform": DEALT | {"starts": {"rule": "uniform", "size": 256}},
    "learnability": DEALT | {"starts": {"rule": "learnability", "size": 256}},
    "proposer": settings_of_authors(WRITER, "proposer", GAME),
}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return the shares of held-out sums that a run's last snapshot gets right, and where its frontier is."""
    seed = open_run(run_dir).config.seed
    return shares_by_size(run_dir, GAME, range(1, DIGITS + 1), "digits", HELD_OUT, seed) | figures_of_log(run_dir, GAME)


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the table."""
    configs = {name: load_settings(tomli_w.dumps(COMMON | own)) for name, own in CONDITIONS.items()}
    figures = measure_runs(configs, seeds, measure, keep, workers, TOKENS)
    conditions = [{"name": name, "runs": [figures[name, seed] for seed in seeds]} for name in CONDITIONS]
    table = {
        "game": f"{GAME}, {TOKENS:,} reply tokens",
        "figure": f"share of {HELD_OUT} held-out sums that are right, all sizes alike",
        "less_is_better": False,
        "columns": COLUMNS,
        "conditions": conditions,
    }
    return {"study": "starts", "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["starts"], measure_study, table_lines)


if __name__ == "__main__":
    main()
