"""A learner of several processes on a Ray cluster: the run of one process, and the same whoever of them dies."""

import time

import psutil
import pytest
import torch
from run_processes import TINY_FREE, TrainingProcess, league_train
from safetensors.torch import load_file

CONFIG = (
    TINY_FREE
    + """
decoupled.learners = "each"
cluster = { workers = 1, matches = 16, engine_cpus = 0.5, learner_cpus = 0.5 }
"""
)
GROUP = ["--set", "learner.processes=2", "--cluster", "local"]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("configs") / "tiny.toml"
    path.write_text(CONFIG)
    return path


def learned(*arguments, run_dir):
    """Return the state that a whole run leaves."""
    ended = league_train(*arguments, run_dir=run_dir)
    assert ended.status == 0, ended.output
    return state(run_dir)


def state(run):
    (newest,) = (run / "state").glob("iteration-*")
    return load_file(newest / "main.safetensors")


SHARDS = pytest.param(["--set", "learner.sharded=true"], id="shards", marks=pytest.mark.slow)


@pytest.mark.parametrize("more", [pytest.param([], id="copies"), SHARDS])
def test_a_group_learns_what_one_process_does(config, more, tmp_path):
    same(learned(config, run_dir=tmp_path / "alone"), learned(config, *GROUP, *more, run_dir=tmp_path / "run"))


@pytest.mark.slow
def test_whoever_of_a_group_dies_it_learns_the_same(config, tmp_path):
    run, longer = tmp_path / "run", ["--set", "iterations=6"]
    process = TrainingProcess(config, *longer, *GROUP, run_dir=run)
    for iteration in (1, 3):
        while not (run / f"state/iteration-{iteration:06d}").exists():
            assert process.alive(), process.end().output
            time.sleep(0.02)
        learners(process)[iteration % 2].kill()
    ended = process.end(within=400)
    assert ended.status == 0, ended.output
    same(learned(config, *longer, run_dir=tmp_path / "alone"), state(run))


def same(wanted, found):
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        torch.testing.assert_close(found[key], value, rtol=1e-4, atol=1e-5, msg=key)


def learners(process):
    """Return the members of a run's one learner, in the order of their starting."""
    below = psutil.Process(process.pid).children(recursive=True)
    return sorted(filter(learns, below), key=psutil.Process.create_time)


def learns(process):
    try:
        return process.cmdline()[:1] == ["ray::Learner"]
    except psutil.NoSuchProcess:
        return False
