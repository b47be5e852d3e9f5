"""One model to hand over: a run's mixture distilled into one snapshot, and settings that a population finds by itself.

    python -m benchmarks.studies.self_play.one_model STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

`distilling`: Leduc poker by the settings of the preset `pocket`, whose mixture is distilled at the end. `breeding`:
Kuhn poker from a learning rate with which nothing is learned, by population-based training, and by one run that goes
on with it for as many iterations as all members together. Figures are exact. With --keep, an interrupted study
continues.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from league import RunConfig, load_config, open_run
from league.lab.breeding.breeding import BREED_FILE, breed

KUHN, LEDUC = "kuhn_poker", "leduc_poker"
DISTILLING = ("iterations=200", "snapshot_every=20", "distil_every=200", "episodes_kept=0", "evaluation.matches=0")
BAD_RATE = 1e-6
BREEDING = f"""
iterations = 30
snapshot_every = 5
threads = 1
episodes_kept = 0
games.{KUHN}.matches = 128
evaluation.matches = 0
model = {{ layers = 1, hidden_size = 32, intermediate_size = 64 }}
objective = {{ clip_low = 0.9, clip_high = 9.0, kl_old = 2.0, entropy = 0.1, entropy_end = 0.02 }}
optimizer = {{ learning_rate = {BAD_RATE}, inner_steps = 4, minibatch_prompts = 128 }}
matchmaking = {{ self_play = 0.8, fictitious = 0.2, opponents = 1 }}
descent = {{ rule = "mutate", members = 4, generations = 6, resample = 0.5 }}
"""


def distilled(run_dir: Path) -> dict[str, Any]:
    """Return what the model distilled from a run's mixture is worth, beside the mixture and the newest snapshot."""
    last = open_run(run_dir).iterations()[-1]
    own, mixture = last[f"{LEDUC}/distilled_exploitability"], last[f"{LEDUC}/mixture_exploitability"]
    return {
        "figure": own,
        "mixture": mixture,
        "ratio": own / mixture,
        "kl": last[f"{LEDUC}/distilled_kl"],
        "newest": last[f"{LEDUC}/exploitability"],
    }


def exploitability_at_end(run_dir: Path) -> dict[str, Any]:
    """Return what the newest snapshot of a run that was not bred is worth."""
    return {"figure": open_run(run_dir).iterations()[-1][f"{KUHN}/exploitability"], "rate": BAD_RATE}


def bred(config: RunConfig, folder: Path) -> dict[str, Any]:
    """Breed a population, or continue it; return its elite's figures."""
    started = (folder / BREED_FILE).exists()
    elite = breed(None if started else config, folder, lambda text: print(text, file=sys.stderr)).record()["elite"]
    last = open_run(folder / elite["run"]).iterations()[-1]
    return {"figure": last[f"{KUHN}/exploitability"], "rate": elite["settings"]["optimizer.learning_rate"]}


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of a study that are not in ``keep`` yet; return its table."""
    if study == "distilling":
        config = load_config("pocket-returns", *DISTILLING, f"games={{{LEDUC}={{matches=1024}}}}")
        figures = measure_runs({"distilled": config}, seeds, distilled, keep, workers)
        conditions = [{"name": "the distilled model", "runs": [figures["distilled", seed] for seed in seeds]}]
        columns = {"mixture": "the mixture", "ratio": "÷ mixture", "kl": "KL, nats", "newest": "newest snapshot"}
    else:
        config = load_settings(BREEDING)
        whole = config.iterations * config.descent.members
        alone = measure_runs(
            {"alone": config.model_copy(update={"iterations": whole})}, seeds, exploitability_at_end, keep, workers
        )
        runs = [bred(config.model_copy(update={"seed": seed}), keep / f"bred-{seed}") for seed in seeds]
        conditions = [
            {"name": "one run, its rate as given", "runs": [alone["alone", seed] for seed in seeds]},
            {"name": "the elite of a population", "runs": runs},
        ]
        columns = {"rate": "learning rate"}
    table = {
        "game": LEDUC if study == "distilling" else KUHN,
        "figure": "exploitability",
        "less_is_better": True,
        "places": 4 if study == "breeding" else 3,
        "columns": columns,
        "conditions": conditions,
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["distilling", "breeding"], measure_study, table_lines)


if __name__ == "__main__":
    main()
