"""What waiting for the longest match costs: runs that take turns beside runs whose matches flow, by slow replies.

    python -m benchmarks.studies.flow flow-use [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

A pocket model learns Kuhn poker by self-play, and each of its replies takes a log-normal time that is slept
(``slow_engine``). ``flow-use``: two workers of a local Ray cluster play, each with ``PLACES`` replies side by side at
most; counted is the share of the places in which a reply is being written, from the first reply of the run to the last.
``flow-time``: one process plays and learns; counted are the seconds from the first iteration's beginning until the
population's mixture has an exploitability of 0.05, and the iterations that it takes. Both are measured for the same
seeds, which deal the same first matches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report.provenance import ROOT
from benchmarks.studies.runs import Result, run_study, table_lines

PLACES, TARGET = 16, 0.05
PLUGIN = "benchmarks.studies.slow_engine"
COMMON = """
plugins = ["{plugin}"]
threads = 1
episodes_kept = 0
snapshot_every = 5
board.time = 0.0
in_flight = {places}
engine = {{ kind = "slow", slow = {{ mean = {mean}, spread = 1.0, told = "{told}" }} }}
model = {{ hidden_size = 32, layers = 1, intermediate_size = 64 }}
cold_start = {{ steps = 30, matches = 64 }}
evaluation = {{ matches = 0, anchors = [] }}
games.kuhn_poker = {{ matches = {matches}, entropy = 0.15, entropy_end = 0.04 }}
matchmaking = {{ self_play = 1.0, fictitious = 0.0 }}
objective = {{ name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 2.0{truncate} }}
optimizer = {{ learning_rate = 2e-3, inner_steps = 4, minibatch_prompts = 128, max_gap = 5.0 }}
async_learners = {{ mode = "{mode}"{staleness} }}
"""
CLUSTER = ("--cluster", "local")
SET_CLUSTER = ("--set", "cluster={workers=2,engine_cpus=0.4,worker_cpus=0.4,matches=8}")
MODES = {"turns": "taking turns", "stream": "matches flow, up to 2 updates old"}


class Shape(NamedTuple):
    """The size of a run."""

    mean: float  # seconds of a reply
    matches: int  # of an iteration
    places: int  # of a process that plays
    iterations: int


USE = Shape(0.1, 64, PLACES, 20)
TIME = Shape(0.06, 256, 2 * PLACES, 120)


def settings(mode: str, told: Path | str, shape: Shape) -> str:
    """Return the configuration of a run."""
    streams = mode == "stream"
    text = COMMON.format(
        plugin=PLUGIN,
        mode=mode,
        told=told,
        mean=shape.mean,
        matches=shape.matches,
        places=shape.places,
        truncate=", truncate = 2.0" if streams else "",
        staleness=", max_staleness = 2" if streams else "",
    )
    return f"iterations = {shape.iterations}\n{text}"


def train(folder: Path, mode: str, seed: int, shape: Shape, cluster: Sequence[str] = ()) -> Path:
    """Train a run in ``folder``, unless it is there; return its folder. Raises CalledProcessError."""
    run, told = folder / f"{mode}-{seed}", folder / f"{mode}-{seed}-slept"
    if _iterations(run) < shape.iterations:
        told.mkdir(parents=True, exist_ok=True)
        config, begun = folder / f"{mode}-{seed}.toml", run.exists()
        config.write_text(f"seed = {seed}\n{settings(mode, told, shape)}", encoding="utf-8")
        command = [sys.executable, "-m", "league", "train", "--plugin", PLUGIN, "--run-dir", str(run)]
        command += ["--resume"] if begun else [str(config), *SET_CLUSTER] if cluster else [str(config)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run([*command, *cluster], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    return run


def _iterations(run: Path) -> int:
    """Return how many iterations of a run are done."""
    path = run / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return int(json.loads(lines[-1])["iteration"]) if lines else 0


def use_of(told: Path, places: int) -> dict[str, float]:
    """Return the use of the places of all workers, and the seconds from the first reply to the last."""
    by_worker = [list(map(json.loads, path.read_text().splitlines())) for path in told.glob("*.jsonl")]
    slept, workers = [pair for one in by_worker for pair in one], len([one for one in by_worker if one])
    begun, ended = min(begin for begin, _ in slept), max(end for _, end in slept)
    busy = sum(end - begin for begin, end in slept)
    return {"figure": busy / (workers * places * (ended - begun)), "seconds": ended - begun}


def reached(run: Path) -> dict[str, float]:
    """Return the seconds and iterations until the mixture is as hard to exploit as ``TARGET``; of a run that was, at
    its end, still easier to exploit, all of them.
    """
    seconds, iteration = 0.0, 0
    for line in map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()):
        if not line["iteration"]:
            continue
        seconds, iteration = seconds + line["seconds"], line["iteration"]
        if line.get("kuhn_poker/mixture_exploitability", 1.0) <= TARGET:
            break
    return {"figure": seconds, "iterations": iteration}


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Train all runs of a study that are not in ``keep`` yet and measure them; return a table."""
    if study == "flow-use":
        used = {
            mode: [
                use_of(train(keep, mode, seed, USE, CLUSTER).with_name(f"{mode}-{seed}-slept"), PLACES)
                for seed in seeds
            ]
            for mode in MODES
        }
        figure = f"share of {PLACES} places each that are used"
        table = _table("two workers", figure, used, {"seconds": "seconds"}, less=False)
    else:
        with ThreadPoolExecutor(workers) as pool:  # they sleep most of the time
            runs = {(mode, seed): pool.submit(train, keep, mode, seed, TIME) for seed in seeds for mode in MODES}
            times = {mode: [reached(runs[mode, seed].result()) for seed in seeds] for mode in MODES}
        figure = f"seconds to a mixture's exploitability of {TARGET}"
        table = _table("one process", figure, times, {"iterations": "iterations"})
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def _table(
    where: str, figure: str, found: dict[str, list[dict[str, float]]], columns: dict[str, str], *, less: bool = True
) -> dict[str, Any]:
    conditions = [{"name": MODES[mode], "runs": runs} for mode, runs in found.items()]
    told = {"game": f"kuhn_poker, {where}", "less_is_better": less, "places": 1}
    return told | {"figure": figure, "columns": columns, "conditions": conditions}


def main() -> None:
    """Train, measure and print."""
    run_study(__doc__, ["flow-use", "flow-time"], measure_study, table_lines)


if __name__ == "__main__":
    main()
