"""What brevity costs: Kuhn poker with free replies, paid for winning and, by `gdpo`, for saying little.

    python -m benchmarks.studies.language.brevity brevity [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

The preset `pocket-free`, shortened, with the return and `brevity` as two rewards, each normalised apart, at several
weights of the second. A point of the front is what a seat says in a match and how exploitable its legal replies are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.studies.runs import Result, measure_runs, run_study, table_lines
from league import RunConfig, load_config, open_run

GAME = "kuhn_poker"
WEIGHTS = (0.0, 0.03, 0.1, 0.3, 1.0)
LAST = 10  # iterations whose mean is shown
SETTINGS = (
    "iterations=40",
    "snapshot_every=20",
    "episodes_kept=0",
    f"games.{GAME}.matches=256",
    "evaluation.matches=0",
    "matchmaking.group_size=8",
    "credit.rule=gdpo",
    "alarms.stop=[]",  # who is paid enough for saying nothing says nothing: the end of the front
)
COLUMNS = {"tokens": "tokens of a seat, a match", "illegal": "illegal replies", "seconds": "seconds"}


def conditions() -> dict[str, RunConfig]:
    """Return the configurations that are compared, by the weight of brevity."""
    return {
        f"weight of brevity {weight:g}": load_config("pocket-free", *SETTINGS, f"credit.gdpo.weights.brevity={weight}")
        for weight in WEIGHTS
    }


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's point of the front: means over its last iterations, and its newest snapshot's exploitability."""
    lines = open_run(run_dir).iterations()
    last = [line for line in lines if line["iteration"] > 0][-LAST:]
    roles = [key for key in last[-1] if key.startswith(f"{GAME}/reward/") and key.endswith("/brevity")]
    exploitability = [line[f"{GAME}/exploitability"] for line in lines if f"{GAME}/exploitability" in line]
    return {
        "figure": exploitability[-1],
        "tokens": -fmean(line[key] for line in last for key in roles),
        "illegal": fmean(line["illegal_rate"] for line in last),
    }


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the front."""
    configs = conditions()
    figures = measure_runs(configs, seeds, measure, keep, workers)
    table = {
        "game": f"{GAME}, free replies",
        "figure": "exploitability of the legal replies",
        "less_is_better": True,
        "places": 3,
        "columns": COLUMNS,
        "conditions": [{"name": name, "runs": [figures[name, seed] for seed in seeds]} for name in configs],
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["brevity"], measure_study, table_lines)


if __name__ == "__main__":
    main()
