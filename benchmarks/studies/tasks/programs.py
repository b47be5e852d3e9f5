"""Which starts to play in ``programs``: the conditions of ``starts``, started from a model that has seen solutions.

    python -m benchmarks.studies.tasks.programs starts_programs [--seeds 0 1 2 3 4] [--keep DIR] [--workers 1] [--json]

A model from nothing finds a program once in 250 attempts, and learns nothing from so few. So one model imitates matches
of ``scripted:optimal`` first, and every run continues from it, with equal reply tokens, those of a proposer included.
The figure is the share of held-out tasks that the last snapshot solves; the row "before" is the model they begin with,
on the same tasks.

With --keep, an interrupted measurement continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from benchmarks.studies.tasks.figures import figures_of_log, shares_by_size
from benchmarks.studies.tasks.settings import COMMON, CONTINUED, imitate, settings_of_authors
from league import open_run

WORDS = (2, 3)  # of a solution
GAME = "programs(size=3,tests=3,form=1)"
WRITER = "propose_programs(size=3,tests=3,form=1)"
HELD_OUT = 600  # tasks
TOKENS = 15_000  # of all replies, after which a run ends
COLUMNS = {
    "2 words": "2 words",
    "3 words": "3 words",
    "solved": "starts solved",
    "out_of_reach": "out of reach",
    "frontier": "mean words of the rest",
    "flat": "flat groups",
}
DEALT = {"games": {GAME: {"matches": 128}}}
CONDITIONS: dict[str, dict[str, Any]] = {
    "uniform": DEALT | {"starts": {"rule": "uniform", "size": 256}},
    "learnability": DEALT | {"starts": {"rule": "learnability", "size": 256}},
    "proposer": settings_of_authors(WRITER, "proposer", GAME),
}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return the shares of held-out tasks that a run's last snapshot solves, and its source; where its frontier is."""
    config = open_run(run_dir).config
    before = shares_by_size(Path(config.model.source), GAME, WORDS, "words", HELD_OUT, config.seed)
    after = shares_by_size(run_dir, GAME, WORDS, "words", HELD_OUT, config.seed)
    return after | figures_of_log(run_dir, GAME) | {"before": before}


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the table."""
    source = imitate(GAME, keep)
    configs = {
        name: load_settings(tomli_w.dumps(COMMON | CONTINUED | own | {"model": {"source": str(source)}}))
        for name, own in CONDITIONS.items()
    }
    figures = measure_runs(configs, seeds, measure, keep / "runs", workers, TOKENS)
    conditions = [{"name": name, "runs": [figures[name, seed] for seed in seeds]} for name in CONDITIONS]
    before = [figures["uniform", seed]["before"] | {"seconds": 0.0} for seed in seeds]
    table = {
        "game": f"{GAME}, {TOKENS:,} reply tokens after imitation",
        "figure": f"share of {HELD_OUT} held-out tasks that are solved, both sizes alike",
        "less_is_better": False,
        "columns": COLUMNS,
        "conditions": [*conditions, {"name": "before", "runs": before}],
    }
    return {"study": "starts_programs", "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["starts_programs"], measure_study, table_lines)


if __name__ == "__main__":
    main()
