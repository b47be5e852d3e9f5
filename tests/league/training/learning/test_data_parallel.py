"""Runs whose updates two processes take equal the run of one process: as copies, as shards, and under torchrun."""

import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from support.processes.runs import TINY_FREE
from support.source import ROOT

from games.common.errors import UsageError
from league.config.load import load

LEAGUE = ["-c", "import sys; from league.cli import main; sys.exit(main())"]


def train(folder, name, *overrides, launcher=(sys.executable, *LEAGUE)):
    """Return the tensors of a run's policies at its end."""
    (folder / "tiny.toml").write_text(TINY_FREE)
    options = [word for override in overrides for word in ("--set", override)]
    command = [*launcher, "train", str(folder / "tiny.toml"), "--run-dir", str(folder / name), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    completed = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    newest = max((folder / name / "state").glob("iteration-*"))  # the one before it is kept too
    return {path.stem: load_file(path) for path in newest.glob("*.safetensors")}


@pytest.mark.thorough
def test_two_processes_train_the_run_of_one(tmp_path):
    alone = train(tmp_path, "alone")
    two = "optimizer.processes=2"
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--no-python", sys.executable)
    runs = {
        "copies": train(tmp_path, "copies", two),
        "shards": train(tmp_path, "shards", two, "optimizer.sharded=true", "optimizer.checkpointing=true"),
        "torchrun": train(tmp_path, "torchrun", launcher=(*torchrun, *LEAGUE)),
    }
    for name, policies in runs.items():
        assert policies.keys() == alone.keys()
        for policy, tensors in alone.items():
            for key, expected in tensors.items():
                torch.testing.assert_close(policies[policy][key], expected, rtol=1e-4, atol=1e-5, msg=f"{name}: {key}")


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
