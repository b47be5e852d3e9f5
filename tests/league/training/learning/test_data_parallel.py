"""Runs whose updates two processes take equal the run of one process: as copies, as shards, and under torchrun."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from support.processes.runs import TINY_FREE, league_train
from support.source import ROOT

from games.common.errors import UsageError
from league.config.load import load
from learners.parallel.saved_shards import layouts_of, read_parts

LEAGUE = ["-c", "import sys; from league.cli import main; sys.exit(main())"]


TWO, SHARDS = ["optimizer.processes=2"], ["optimizer.sharded=true", "optimizer.checkpointing=true"]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--no-python", sys.executable)
WEIGHTS = {"lora": [], "full": ["policies.main.weights=full"]}


def league(*words, launcher):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    completed = subprocess.run([*launcher, *map(str, words)], env=environment, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr


def train(folder, name, *overrides, launcher=None):
    """Return the tensors of a run's policies at its end; without a launcher it is trained from the fork server."""
    (folder / "tiny.toml").write_text(TINY_FREE)
    options = [word for override in overrides for word in ("--set", override)]
    if launcher is None:
        go_on(folder / "tiny.toml", *options, run_dir=folder / name)
    else:
        league("train", folder / "tiny.toml", "--run-dir", folder / name, *options, launcher=launcher)
    return tensors(folder / name)


def go_on(*words, run_dir):
    ended = league_train(*words, run_dir=run_dir)
    assert ended.status == 0, ended.output


def tensors(run):
    newest = max((run / "state").glob("iteration-*"))  # the one before it is kept too
    assert not list(newest.rglob("*.pt*")) + list(newest.rglob(".metadata")), "nothing is pickled"
    return {path.stem: state_of(path) for path in newest.glob("*.safetensors")}


def state_of(path, *, parts=False):
    """Return the tensors of a file, or (or only, if these are ``parts``) of a folder of parts."""
    if path.is_file() and not parts:
        return load_file(path)
    assert len({part.name.split("-")[1] for part in path.iterdir()}) > 1, "each process writes its part"
    whole = {name: torch.full(*layout[:1], 7, dtype=layout.dtype) for name, layout in layouts_of(path).items()}
    read_parts(path, whole, together=False)
    return whole


def resumed(run, target, processes):
    """Resume a run of two iterations for two more, with another number of processes."""
    shutil.copytree(run, target)
    config = target / "config.toml"
    text = config.read_text().replace("iterations = 2", "iterations = 4", 1)
    text = text.replace("processes = 2", f"processes = {processes}", 1)
    config.write_text(text if processes > 1 else text.replace("sharded = true", "sharded = false", 1))
    go_on("--resume", run_dir=target)
    return tensors(target)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for policy, of_policy in expected.items():
        assert found[policy].keys() == of_policy.keys()
        for key, tensor in of_policy.items():
            torch.testing.assert_close(found[policy][key], tensor, rtol=1e-4, atol=1e-5, msg=key)


@pytest.mark.thorough
@pytest.mark.parametrize("weights", WEIGHTS)
def test_copies_and_shards_train_the_run_of_one_process_whatever_number_goes_on(weights, tmp_path):
    alone = train(tmp_path, "alone", *WEIGHTS[weights], "iterations=4")
    assert_same(train(tmp_path, "copies", *WEIGHTS[weights], *TWO, "iterations=4"), alone)
    train(tmp_path, "shards", *WEIGHTS[weights], *TWO, *SHARDS, "optimizer.offload=true", "checkpoints=3")
    first = state_of(tmp_path / "shards/state/iteration-000000/main.safetensors", parts=True)
    assert not any(key.startswith("exp_avg") for key in first), "before the first update"
    for processes in (1, 2, 3):
        assert_same(resumed(tmp_path / "shards", tmp_path / f"on-{processes}", processes), alone)


# The leader is killed while it writes its part for the second time, after a file of the first policy.
KILLED = """
import multiprocessing, os, signal, sys
from torch.distributed.checkpoint import HuggingFaceStorageWriter as Writer

written, write = [], Writer.write_data

def killed(self, *plan):
    written.append(1)
    write(self, *plan)
    if len(written) == 3 and multiprocessing.parent_process() is None:  # at iterations 0, 1 and 2
        os.kill(os.getpid(), signal.SIGKILL)
    return write(self, *plan)

Writer.write_data = killed
from league.cli import main
sys.exit(main())
"""


@pytest.mark.thorough
def test_a_kill_while_parts_are_written_leaves_the_checkpoint_before_it(tmp_path):
    alone = train(tmp_path, "alone", *WEIGHTS["full"], "iterations=3")
    run = tmp_path / "shards"
    options = [*WEIGHTS["full"], *TWO, *SHARDS, "iterations=3"]
    words = ["train", tmp_path / "tiny.toml", "--run-dir", run, *(w for option in options for w in ("--set", option))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([sys.executable, "-c", KILLED, *map(str, words)], env=environment, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    begun = run / "state/.iteration-000002/main.safetensors"
    assert list(begun.glob("*.safetensors")), "a part was there"
    assert sorted(path.name for path in (run / "state").glob("iteration-*"))[-1] == "iteration-000001"
    go_on("--resume", run_dir=run)
    assert_same(tensors(run), alone)


# The leader kills its follower while both write their parts of the checkpoint after an iteration.
LOST = """
import multiprocessing, sys
from pathlib import Path
from torch.distributed.checkpoint import HuggingFaceStorageWriter as Writer

write, lost = Writer.write_data, sys.argv.pop(1)

def losing(self, *plan):
    if f"iteration-{lost}" in str(self.path) and (followers := multiprocessing.active_children()):
        globals()["lost"] = "none"
        for follower in followers:
            follower.kill()
            follower.join()
    return write(self, *plan)

Writer.write_data = losing
from league.cli import main
sys.exit(main())
"""


@pytest.mark.slow
def test_a_run_goes_on_by_itself_when_a_process_dies_over_a_checkpoint(tmp_path):
    """In the midst of a run, where the next update notices; over several iterations; and over the last checkpoint."""
    alone = train(tmp_path, "alone", *WEIGHTS["full"], "iterations=4", "snapshot_every=4")
    for lost, every in (("000002", 1), ("000003", 3), ("000004", 1)):
        run = tmp_path / f"lost-{lost}"
        options = [*WEIGHTS["full"], *TWO, *SHARDS, "iterations=4", f"checkpoint_every={every}", "snapshot_every=4"]
        words = [w for option in options for w in ("--set", option)]
        league("train", tmp_path / "tiny.toml", "--run-dir", run, *words, launcher=(sys.executable, "-c", LOST, lost))
        assert_same(tensors(run), alone)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert [line.get("learners/replaced", 0) for line in lines[1:]] == [
            lost == f"00000{n - 1}" for n in range(1, 5)
        ]
        journal = [json.loads(line)[0] for line in (run / "state/journal.jsonl").read_text().splitlines()]
        assert journal == [0, 1, 2, 3, 4], "each iteration's results once"


@pytest.mark.thorough
def test_torchrun_trains_the_run_of_one_process(tmp_path):
    assert_same(train(tmp_path, "torchrun", launcher=(*TORCHRUN, *LEAGUE)), train(tmp_path, "alone"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["optimizer.sharded=true"], "optimizer.processes = 1. Set it to the number of GPUs"),
        (["optimizer.sharded=true", "optimizer.processes=2"], "kuhn_poker/first chooses among replies"),
        (["optimizer.checkpointing=true"], "Set roles.reply = 'free'"),
        (["optimizer.sharded=true", "optimizer.processes=2", "optimizer.name=adamw8bit"], "Set optimizer.name ="),
    ],
)
def test_bad_combinations_are_refused(overrides, message):
    with pytest.raises(UsageError) as refused:
        load("pocket-returns", ["games={kuhn_poker={}}", *overrides])
    assert message in str(refused.value)
