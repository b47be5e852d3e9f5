"""What a learner's workers have learned goes to the run's disk, each its part, and never through the driver as a whole.

With real workers of a Ray cluster on this machine; where they are not to see the driver's disk, they find there what
another driver wrote.
"""

import shutil
from contextlib import contextmanager

import pytest
import ray
import torch
from ray import cloudpickle
from safetensors.torch import load_file
from support.processes.runs import TINY_FREE

from arena.cluster.interface import WorkerSpec
from arena.cluster.ray_cluster import RayCluster
from league.config.context import run_context
from league.config.load import load
from league.training.backends import run_disk
from league.training.backends.cluster_learners import ClusterLearner
from league.training.backends.run_disk import RunDisk
from league.training.backends.weight_transfer import put_base
from league.training.checkpoints.checkpoint import (
    checkpoints,
    clear_state,
    finish_checkpoint,
    load_checkpoint,
    save_checkpoint,
    save_ratings,
)
from league.training.checkpoints.run_state import new_state
from league.training.learning.policies import start_policies
from league.training.loop.loop import League, Services
from learners.parallel.saved_shards import layouts_of, read_parts

SIZES = ["model.hidden_size=64", "model.layers=2", "model.intermediate_size=256"]
FULL = [*SIZES, "policies.main.weights=full", "async_learners.processes=each", "objective.magnet=0.0"]
PLAIN = [*FULL, "objective.kl_reference=0.0"]
SHARDS = ["optimizer.sharded=true", "optimizer.checkpointing=true"]
PIECE = 1 << 16


class Counting(RayCluster):
    """A cluster that counts the bytes of what the driver gets from learners, and of what it puts."""

    def __init__(self):
        super().__init__("local", 2)
        self.got, self.puts = [], []

    def get(self, call):
        value = super().get(call)
        if call.worker_id.kind == "learner":
            self.got.append(len(cloudpickle.dumps(value)))
        return value

    def put(self, value):
        self.puts.append(len(cloudpickle.dumps(value)))
        return super().put(value)


@pytest.fixture(scope="module")
def cluster():
    with Counting() as joined:
        yield joined
    assert not ray.is_initialized()


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def context_of(folder, processes):
    (folder.parent / "tiny.toml").write_text(TINY_FREE)
    shards = [f"optimizer.processes={processes}", *(SHARDS if processes > 1 else [])]
    return run_context(load(str(folder.parent / "tiny.toml"), [*PLAIN, *shards, "iterations=9"]), folder)


@contextmanager
def learning(cluster, context, state):
    """Yield a league whose learner is on the cluster, and whose matches are played here."""
    bases = dict.fromkeys(state.policies, put_base(cluster, context, state.policies))
    learner = ClusterLearner(cluster, context, state, bases, WorkerSpec("learner", object, (), 0.25))
    league = League(context, state, Services(learner))
    try:
        cluster.got.clear()
        cluster.puts.clear()
        learner.begin()
        yield league
    finally:
        learner.close()
        finish_checkpoint(state)
        league.close()
        state.close()


def learn(league, iteration):
    """Play and learn from an iteration, and save the run; return the metrics."""
    league.submit(iteration, league.play(league.draw_matches(iteration)))
    learned = league.collect(iteration)
    league.state.iteration = iteration
    league.state.played_ahead.clear()
    save(league.context.run_dir, league.state)
    return learned.metrics


def save(folder, state):
    save_ratings(folder, state)
    save_checkpoint(folder, state, 9)
    finish_checkpoint(state)


def resumed(folder, target, processes):
    """Return a copy of a run as it goes on with another number of processes."""
    shutil.copytree(folder, target)
    context = context_of(target, processes)
    policies = start_policies(context)
    policies["main"].plays = True  # as a session lets them
    return context, load_checkpoint(context.config, target, policies)


def state_of(path):
    if path.is_file():
        return load_file(path)
    whole = {name: torch.zeros(layout.shape, dtype=layout.dtype) for name, layout in layouts_of(path).items()}
    read_parts(path, whole, together=False)
    return whole


def newest(folder):
    return checkpoints(folder)[-1] / "main.safetensors"


def assert_equal(found, expected, within=0.0):
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(found[key], tensor, rtol=0.0, atol=within, msg=key)


@pytest.mark.thorough
def test_ranks_write_their_parts_and_any_number_goes_on_also_where_they_do_not_see_the_disk(
    cluster, tmp_path, monkeypatch
):
    run, first = tmp_path / "run", tmp_path / "first"
    context = context_of(run, 2)
    (run / "state").mkdir(parents=True)
    clear_state(run)
    state = new_state(context.config, run, start_policies(context))
    with learning(cluster, context, state) as league:
        save(run, state)
        assert newest(run).samefile(league.learner._learned["main"] / "main.safetensors"), "not written a second time"
        learn(league, 1)
        shutil.copytree(run, first)
        league.learner._groups["main"]._workers[1].stop()
        replaced = learn(league, 2)
        folders = [path.name for path in (run / "learners/main").iterdir()]
    assert replaced["cluster/replaced/learner"] == 1.0
    assert folders == ["000002-1"], "what nobody would start from is removed"
    assert not (run / "learners").exists()
    whole, weights = state_of(newest(run)), state.policies["main"]
    size = sum(tensor.nbytes for tensor in whole.values())
    assert {path.name[:11] for path in newest(run).iterdir()} == {"shard-00001", "shard-00002"}
    assert (max(cluster.got) < size / 10, max(cluster.puts) < size / 5) == (True, True)
    assert not weights.optimizer.state, "the driver has no optimiser's state"
    assert any(key.startswith("exp_avg_sq/") for key in whole)

    mark = RunDisk.mark

    def hidden(disk, folder):
        (marked := mark(disk, folder))._marked.write_text("another run's")
        return marked

    for processes in (1, 3):
        target = tmp_path / f"on-{processes}"
        context, state = resumed(first, target, processes)
        if processes == 3:
            monkeypatch.setattr(RunDisk, "mark", hidden)
            monkeypatch.setattr(run_disk, "PIECE", PIECE)
        with learning(cluster, context, state) as league:
            group, empty = league.learner._groups["main"], target / "learners/main/000000-0"
            group.submit(0, cluster.put(([], [])), empty)
            group.collect(0)
            assert_equal(state_of(empty / "main.safetensors"), state_of(newest(first)))
            learn(league, 2)
        assert_equal(state_of(newest(target)), whole, within=1e-5)
        assert max(cluster.got) < size / 10
