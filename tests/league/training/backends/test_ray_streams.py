"""A stream of matches on a Ray cluster: what dies or hangs costs time, and every match counts once."""

import os
import random
import shutil
import signal
import time
from collections import Counter

import pytest
from safetensors.torch import load_file
from support.processes.ray_nodes import nodes
from support.processes.runs import TINY, TrainingProcess, league_train

from league.population.results.match_store import STORE_FILE, MatchStore
from league.training.board.metrics_log import read_metrics

STREAM = """
checkpoints = 99
objective.truncate = 2.0
optimizer.max_gap = 1.0
async_learners = { mode = "stream", max_staleness = 2 }
cluster = { engine_cpus = 0.5, worker_cpus = 0.5, learner_cpus = 0.5, matches = 8, timeout = 4.0 }
"""
KINDS = {"none": ["Worker"], "each": ["Worker", "Learner"]}


def saved(run):
    """Return the iteration after which a run was last saved; −1: never."""
    return max((int(path.name[-6:]) for path in run.glob("state/iteration-*")), default=-1)


def matches(run):
    """Return what happened in each match of a run, by index, without the log-probs."""
    with MatchStore(run / STORE_FILE, reads=True) as store:
        played = list(store.matches("kuhn_poker"))
    assert len({match.index for match in played}) == len(played)
    return sorted((match.index, match.iteration, str(match.players), str(match.returns)) for match in played)


def train(arguments, run, cluster, times, kinds):
    """Train to the end through this many kills and stops, each after another iteration; return how often what was hit.

    A process that dies before it has done anything ends the run at the third time, so each has time to begin.
    """
    rng, hit, process = random.Random(times), Counter(), None
    while sum(hit.values()) < times:
        seen = saved(run)
        if process is None:
            process = TrainingProcess(*(arguments if seen < 0 else ["--resume", *arguments[-2:]]), run_dir=run)
        while saved(run) <= seen:
            assert process.alive(), process.end().output
            time.sleep(0.02)
        kind = rng.choice(["driver", *kinds, *kinds])
        if kind == "driver":
            os.kill(process.pid, signal.SIGKILL)
            process.end()
            process = None
        elif victims := cluster.processes(kind):
            kind += f" {(sign := rng.choice([signal.SIGKILL, signal.SIGSTOP])).name}"
            rng.choice(victims).send_signal(sign)
        else:
            continue  # none has started yet
        hit[kind] += 1
    ended = (process or TrainingProcess("--resume", *arguments[-2:], run_dir=run)).end(within=300)
    assert ended.status == 0, ended.output
    return hit


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("learners", "times"),
    [("each", 3), *[pytest.param(learners, 30, marks=pytest.mark.slow) for learners in ("none", "each")]],
)
def test_whatever_dies_or_hangs_no_match_of_a_stream_is_lost_or_counts_twice(learners, times, tmp_path):
    config, run, iterations = tmp_path / "config.toml", tmp_path / "run", 3 * times + 6
    config.write_text(TINY.replace("iterations = 6", f"iterations = {iterations}") + STREAM)
    for cluster in nodes(2, cpus=2):
        arguments = [config, "--set", f"async_learners.processes={learners}", "--cluster", cluster.address]
        hit = train(arguments, run, cluster, times, KINDS[learners])
    assert len(hit) > 1, hit
    lines = [line for line in read_metrics(run) if line["iteration"]]
    assert [line["kuhn_poker/matches"] for line in lines] == [64.0] * iterations
    assert max(line.get("staleness/most", 0) for line in lines) <= 2
    shutil.copytree(run, tmp_path / "again")
    again = league_train("--resume", "--from", "0", run_dir=tmp_path / "again")
    assert again.status == 0, again.output
    assert matches(run) == matches(tmp_path / "again")
    newest = f"state/iteration-{iterations:06d}/main.safetensors"
    first, second = (load_file(folder / newest) for folder in (run, tmp_path / "again"))
    assert all(float((first[name] - second[name]).abs().max()) < 1e-4 for name in first if name.startswith("weights"))
