"""A stream of matches on a Ray cluster: workers that die or hang cost a chunk, and every match counts once."""

import random
import shutil
import signal
import time

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
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


def send(cluster, kind, sign, rng):
    """Send a signal to one of the processes of a kind; return whether there was one."""
    victims = cluster.processes(kind)
    if not victims:
        return False
    rng.choice(victims).send_signal(sign)
    return True


def saved(run):
    """Return the iteration after which a run was last saved; −1: never."""
    return max((int(path.name[-6:]) for path in run.glob("state/iteration-*")), default=-1)


def matches(run):
    """Return what happened in each match of a run, by index, without the log-probs."""
    with MatchStore(run / STORE_FILE, reads=True) as store:
        played = list(store.matches("kuhn_poker"))
    assert len({match.index for match in played}) == len(played)
    return sorted((match.index, match.iteration, str(match.players), str(match.returns)) for match in played)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "times"), [("killed", 6), ("stopped", 3)])
@pytest.mark.parametrize("learners", ["none", "each"])
def test_workers_that_die_or_hang_change_no_match_of_a_stream(how, times, learners, tmp_path):
    config, run, rng, sent = tmp_path / "config.toml", tmp_path / "run", random.Random(times), 0
    config.write_text(TINY.replace("iterations = 6", "iterations = 24") + STREAM)
    arguments = [config, "--set", f"async_learners.processes={learners}"]
    for cluster in nodes(2, cpus=2):
        process = TrainingProcess(*arguments, "--cluster", cluster.address, run_dir=run)
        for number in range(times):
            while saved(run) < 3 * number:  # a worker that dies while it starts ends the run at the third time
                assert process.alive(), process.end().output
                time.sleep(0.02)
            sent += send(cluster, "Worker", SIGNALS[how], rng)
        ended = process.end(within=400)
        assert ended.status == 0, ended.output
    assert sent > 1
    lines = [line for line in read_metrics(run) if line["iteration"]]
    assert [line["kuhn_poker/matches"] for line in lines] == [64.0] * 24
    assert max(line.get("staleness/most", 0) for line in lines) <= 2
    assert sum(line.get("cluster/replaced/worker", 0) for line in lines) >= 1
    shutil.copytree(run, tmp_path / "again")
    again = league_train("--resume", "--from", "0", run_dir=tmp_path / "again")
    assert again.status == 0, again.output
    assert matches(run) == matches(tmp_path / "again")
    first, second = (load_file(p / "state/iteration-000024/main.safetensors") for p in (run, tmp_path / "again"))
    assert all(float((first[name] - second[name]).abs().max()) < 1e-4 for name in first if name.startswith("weights"))
