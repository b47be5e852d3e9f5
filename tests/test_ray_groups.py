"""A learner of several processes on a Ray cluster: the run of one process, and the same whoever of them dies."""

import time

import psutil
import pytest
import torch
from run_processes import TrainingProcess, league_train
from safetensors.torch import load_file

CONFIG = """
threads = 1
iterations = 6
snapshot_every = 6
games.kuhn_poker.matches = 16
roles.reply = "free"
roles.on_illegal = "forfeit"
roles.max_reply_tokens = 4
policies.main = { kind = "lora", rank = 2 }
model = { hidden_size = 16, layers = 1, intermediate_size = 16 }
cold_start = { steps = 2, matches = 8 }
objective = { magnet = 0.1, magnet_every = 1, kl_reference = 0.1 }
learner = { inner_steps = 2, minibatch_prompts = 4, micro_batch_tokens = 64 }
decoupled.learners = "each"
evaluation.matches = 4
cluster = { workers = 1, matches = 16, engine_cpus = 0.5, learner_cpus = 0.5 }
"""
GROUP = ["--set", "learner.processes=2", "--cluster", "local"]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("configs") / "tiny.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def alone(config):
    run = config.parent / "alone"
    ended = league_train(config, run_dir=run)
    assert ended.status == 0, ended.output
    return learned(run)


def learned(run):
    (state,) = (run / "state").glob("iteration-000006")
    return load_file(state / "main.safetensors")


SHARDS = pytest.param(["--set", "learner.sharded=true"], id="shards", marks=pytest.mark.slow)


@pytest.mark.parametrize("more", [pytest.param([], id="copies"), SHARDS])
def test_a_group_learns_what_one_process_does(config, alone, more, tmp_path):
    ended = league_train(config, *GROUP, *more, run_dir=tmp_path / "run")
    assert ended.status == 0, ended.output
    found = learned(tmp_path / "run")
    assert found.keys() == alone.keys()
    for key, wanted in alone.items():
        torch.testing.assert_close(found[key], wanted, rtol=1e-4, atol=1e-5, msg=key)


@pytest.mark.slow
def test_whoever_of_a_group_dies_it_learns_the_same(config, alone, tmp_path):
    run = tmp_path / "run"
    process = TrainingProcess(config, *GROUP, run_dir=run)
    for iteration in (1, 3):
        while not (run / f"state/iteration-{iteration:06d}").exists():
            assert process.alive(), process.end().output
            time.sleep(0.02)
        learners(process)[iteration % 2].kill()
    ended = process.end(within=400)
    assert ended.status == 0, ended.output
    found = learned(run)
    for key, wanted in alone.items():
        torch.testing.assert_close(found[key], wanted, rtol=1e-4, atol=1e-5, msg=key)


def learners(process):
    """Return the members of a run's one learner, in the order of their starting."""
    below = psutil.Process(process.pid).children(recursive=True)
    return sorted(filter(learns, below), key=psutil.Process.create_time)


def learns(process):
    try:
        return process.cmdline()[:1] == ["ray::Learner"]
    except psutil.NoSuchProcess:
        return False
