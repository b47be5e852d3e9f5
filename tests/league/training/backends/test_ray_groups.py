"""A learner of several processes on a Ray cluster gives the run of one process, and the same when one of them dies."""

import time

import psutil
import pytest
import torch
from safetensors.torch import load_file
from support.processes.runs import TINY_FREE, TrainingProcess, league_train

CONFIG = (
    TINY_FREE
    + """
async_learners.processes = "each"
cluster = { workers = 1, matches = 16, engine_cpus = 0.5, learner_cpus = 0.5 }
"""
)
GROUP = ["--set", "optimizer.processes=2", "--cluster", "local"]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("configs") / "tiny.toml"
    path.write_text(CONFIG)
    return path


def train(*arguments, run_dir):
    """Return the final weights of a run without a break."""
    ended = league_train(*arguments, run_dir=run_dir)
    assert ended.status == 0, ended.output
    return final_weights(run_dir)


def final_weights(run):
    newest = max((run / "state").glob("iteration-*"))
    return load_file(newest / "main.safetensors")


SHARDS = pytest.param(["--set", "optimizer.sharded=true"], id="shards", marks=pytest.mark.slow)


@pytest.mark.parametrize("options", [pytest.param([], id="copies", marks=pytest.mark.slow), SHARDS])
def test_a_group_learns_what_one_process_does(config, options, tmp_path):
    alone = train(config, run_dir=tmp_path / "alone")
    assert_close(alone, train(config, *GROUP, *options, run_dir=tmp_path / "run"))


@pytest.mark.slow
def test_a_group_learns_the_same_when_its_workers_die(config, tmp_path):
    run, longer = tmp_path / "run", ["--set", "iterations=6"]
    process = TrainingProcess(config, *longer, *GROUP, run_dir=run)
    for iteration in (1, 3):
        while not (run / f"state/iteration-{iteration:06d}").exists():
            assert process.alive(), process.end().output
            time.sleep(0.02)
        learner_processes(process)[iteration % 2].kill()
    ended = process.end(within=400)
    assert ended.status == 0, ended.output
    assert_close(train(config, *longer, run_dir=tmp_path / "alone"), final_weights(run))


def assert_close(expected, weights):
    assert weights.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(weights[key], value, rtol=1e-4, atol=1e-5, msg=key)


def learner_processes(process):
    """Return the processes of a run's only learner, in the order of their start."""
    children = psutil.Process(process.pid).children(recursive=True)
    return sorted(filter(is_learner, children), key=psutil.Process.create_time)


def is_learner(process):
    try:
        return process.cmdline()[:1] == ["ray::Learner"]
    except psutil.NoSuchProcess:
        return False
