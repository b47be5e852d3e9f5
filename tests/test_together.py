"""Whole runs whose updates two processes take: the run of one process, as copies and as shards, under torchrun too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from run_processes import TINY_FREE
from safetensors.torch import load_file

from games.errors import UsageError
from league import settings

ROOT = Path(__file__).parent.parent
LEAGUE = ["-c", "import sys; from league.cli import main; sys.exit(main())"]


def trained(folder, name, *overrides, launcher=(sys.executable, *LEAGUE)):
    """Return what a run's policies are at its end, and its process's status and words."""
    (folder / "tiny.toml").write_text(TINY_FREE)
    words = [word for one in overrides for word in ("--set", one)]
    command = [*launcher, "train", str(folder / "tiny.toml"), "--run-dir", str(folder / name), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (state,) = (folder / name / "state").glob("iteration-*")
    return {path.stem: load_file(path) for path in state.glob("*.safetensors")}


@pytest.mark.slow
def test_two_processes_train_the_run_of_one(tmp_path):
    alone = trained(tmp_path, "alone")
    two = "learner.processes=2"
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--no-python", sys.executable)
    runs = {
        "copies": trained(tmp_path, "copies", two),
        "shards": trained(tmp_path, "shards", two, "learner.sharded=true", "learner.checkpointing=true"),
        "torchrun": trained(tmp_path, "torchrun", launcher=(*torchrun, *LEAGUE)),
    }
    for name, found in runs.items():
        assert found.keys() == alone.keys()
        for policy, tensors in alone.items():
            for key, wanted in tensors.items():
                torch.testing.assert_close(found[policy][key], wanted, rtol=1e-4, atol=1e-5, msg=f"{name}: {key}")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["learner.sharded=true"], "learner.processes = 1. Set it to the number of GPUs"),
        (["learner.sharded=true", "learner.processes=2"], "kuhn_poker/first chooses among replies"),
        (["learner.checkpointing=true"], "Set roles.reply = 'free'"),
        (["learner.sharded=true", "learner.processes=2", "learner.optimizer=adamw8bit"], "Set learner.optimizer ="),
    ],
)
def test_what_does_not_go_together_is_told(overrides, words):
    with pytest.raises(UsageError) as told:
        settings.load("pocket", ["games={kuhn_poker={}}", *overrides])
    assert words in str(told.value)
