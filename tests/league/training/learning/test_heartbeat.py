"""A learner that hangs is noticed by its silence, ended and replaced, and the run is the same."""

import multiprocessing
import os
import signal
import sqlite3
import time
from contextlib import closing

import psutil
import pytest
import torch
from safetensors.torch import load_file
from support.processes.learners import EACH
from support.processes.runs import TINY, TrainingProcess, league_train

from league.training.board.metrics_log import read_metrics
from league.training.learning.heartbeat import PAUSE, Heartbeat, Listener

pytestmark = pytest.mark.thorough

FEW = TINY.replace("iterations = 6", "iterations = 12").replace("snapshot_every = 2", "snapshot_every = 100")


class Beats:
    """A heartbeat by hand."""

    def __init__(self):
        self.beats = 0

    def count(self):
        return self.beats


def test_silence_is_counted_from_the_last_beat_while_somebody_looks():
    beats, now = Beats(), [0.0]
    listener = Listener(beats, clock=lambda: now[0])
    heard = []
    for second in range(1, 13):
        now[0], beats.beats = float(second), min(second, 4)
        heard.append(listener.silence())
    assert heard == [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    now[0] += PAUSE + 1.0  # who looks was stopped himself, and those he listens to with him
    assert listener.silence() == 0.0
    now[0] += 1.0
    assert listener.silence() == 1.0


def test_a_heart_beats_in_another_process_until_it_is_stopped():
    context = multiprocessing.get_context("fork")
    heartbeat = Heartbeat(context)
    process = context.Process(target=beat, args=(heartbeat,))
    process.start()
    try:
        first = heartbeat.count()
        while heartbeat.count() < first + 2:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.1)
        stopped_at = heartbeat.count()
        time.sleep(1.2)
        assert heartbeat.count() == stopped_at
    finally:
        process.kill()
        process.join()


def beat(heartbeat):
    heartbeat.start()
    time.sleep(60)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "two.toml").write_text(FEW)
    assert league_train(folder / "two.toml", run_dir=folder / "run").status == 0
    return weights(folder / "run")


def weights(run):
    return load_file(run / "state/iteration-000012/main.safetensors")


def stopped_learner(tmp_path):
    """Start a run whose learner process is stopped; return the run, its process, and the learner's id."""
    (tmp_path / "two.toml").write_text(FEW)
    run = tmp_path / "run"
    process = TrainingProcess(
        tmp_path / "two.toml", *EACH, run_dir=run, constants={"league.training.learning.heartbeat.SILENCE": 3.0}
    )
    while process.alive() and not list(run.glob("learners/main/00000[2-9]")):
        time.sleep(0.01)
    (learner,) = process.children()
    os.kill(learner, signal.SIGSTOP)
    return run, process, learner


@pytest.mark.parametrize("sign", [signal.SIGSTOP, signal.SIGKILL])
def test_a_learner_that_is_stopped_or_killed_is_replaced_and_the_run_is_the_same(sign, undisturbed, tmp_path):
    run, process, learner = stopped_learner(tmp_path)
    os.kill(learner, sign)
    ended = process.end(within=120)
    assert ended.status == 0, ended.output
    assert sum(line.get("learners/replaced", 0) for line in read_metrics(run)) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(learner, 0)
    replaced = weights(run)
    assert replaced.keys() == undisturbed.keys()
    assert all(torch.equal(replaced[name], undisturbed[name]) for name in replaced)


def test_a_learner_that_is_stopped_while_it_holds_the_record_store_is_replaced(tmp_path):
    run, process, learner = stopped_learner(tmp_path)
    with closing(sqlite3.connect(run / "records.sqlite", timeout=10, isolation_level=None)) as store:
        store.execute("BEGIN IMMEDIATE")  # as the learner does to lease a batch; only the lock matters here
        while process.alive() and psutil.pid_exists(learner):
            time.sleep(0.05)
    ended = process.end(within=120)
    assert ended.status == 0, ended.output


@pytest.mark.parametrize("sign", [signal.SIGSTOP, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_a_process_that_takes_updates_with_others_is_replaced_and_the_run_is_the_same(sign, tmp_path):
    (tmp_path / "tiny.toml").write_text(FEW.replace("iterations = 12", "iterations = 5"))
    runs = {}
    for name in ("undisturbed", "run"):
        process = TrainingProcess(
            *(tmp_path / "tiny.toml", "--set", "optimizer.processes=2"),
            run_dir=tmp_path / name,
            constants={"league.training.learning.heartbeat.SILENCE": 3.0},
        )
        while name == "run" and process.alive() and not (tmp_path / name / "state/iteration-000002").exists():
            time.sleep(0.01)
        if name == "run":
            follower = process.children()[-1]  # the first is multiprocessing's tracker of resources
            os.kill(follower, sign)
        ended = process.end(within=240)
        assert ended.status == 0, ended.output
        runs[name] = load_file(tmp_path / name / "state/iteration-000005/main.safetensors")
    assert sum(line.get("learners/replaced", 0) for line in read_metrics(tmp_path / "run")) == 1
    assert all(torch.equal(runs["run"][name], runs["undisturbed"][name]) for name in runs["run"])
