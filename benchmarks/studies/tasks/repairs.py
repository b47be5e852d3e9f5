"""Bugs that one policy plants and another mends, started from a model that has seen bugs mended.

    python -m benchmarks.studies.tasks.repairs inject_repair [--seeds 0 1 2 3 4] [--keep DIR] [--workers 1] [--json]

A model from nothing mends a bug as rarely as choosing at random does, and learned nothing in 20 iterations. So one
model imitates matches of ``scripted:optimal`` in ``repair`` first, and every run continues from it: both its policies,
the one that plants and the one that mends, begin as that model. The figure is the share of the fixed list of held-out
bugs that the solver mends; "before" is the model they begin with, on the same matches.

With --keep, an interrupted measurement continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from benchmarks.studies.tasks.figures import figures_of_log, invalid_at_end, mended_at_end
from benchmarks.studies.tasks.settings import COMMON, CONTINUED, imitate, settings_of_authors
from games.common.seeds import derive_seed
from league import match, open_run

REPAIR, INJECT, BUGS = "repair(form=1)", "inject_repair(form=1)", "repair(form=1,held_out=1)"
MENDED = 240  # matches, ten of each of the 24 held-out bugs on average
TOKENS = 16_000  # of all replies, after which a run ends
COLUMNS = {
    "mended": "planted bugs mended, at the end",
    "invalid": "planted bugs that are none, at the end",
    "solved": "starts solved",
    "out_of_reach": "out of reach",
    "flat": "flat groups",
}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return the shares of held-out bugs that a run's last snapshot and the model it began with mend."""
    config = open_run(run_dir).config
    seed = derive_seed(config.seed, "held out")
    before, after = (_mended(Path(player), seed) for player in (config.model.source, run_dir))
    return {
        "figure": after,
        "before": before,
        **figures_of_log(run_dir, REPAIR),
        "invalid": invalid_at_end(run_dir, INJECT),
        "mended": mended_at_end(run_dir, REPAIR),
    }


def _mended(player: Path, seed: int) -> float:
    """Return the share of held-out bugs that a run's last snapshot mends."""
    episodes = match(player, "scripted:poor", game=BUGS, matches=2 * MENDED, seed=seed).episodes
    return fmean(e.returns[0] for e in episodes if e.request.players[0] != "scripted:poor")


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the table, in which before is a condition."""
    source = imitate(REPAIR, keep)
    own = settings_of_authors(INJECT, "injector", REPAIR) | {"model": {"source": str(source)}}
    configs = {"after": load_settings(tomli_w.dumps(COMMON | CONTINUED | own))}
    figures = measure_runs(configs, seeds, measure, keep / "runs", workers, TOKENS)
    after = [figures["after", seed] for seed in seeds]
    before = [{"figure": run["before"], "seconds": 0.0} for run in after]
    table = {
        "game": f"{INJECT}, {TOKENS:,} reply tokens after imitation",
        "figure": f"share of {MENDED} matches, dealt from the 24 held-out bugs, in which the bug is mended",
        "less_is_better": False,
        "columns": COLUMNS,
        "conditions": [{"name": "before", "runs": before}, {"name": "after", "runs": after}],
    }
    return {"study": "inject_repair", "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["inject_repair"], measure_study, table_lines)


if __name__ == "__main__":
    main()
