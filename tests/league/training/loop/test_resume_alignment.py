"""A resumed run's tensors have the same alignment as before, so that products have the same bits on any processor."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.processes.runs import TINY, TrainingProcess, contents
from torch.utils._python_dispatch import TorchDispatchMode

from arena.lm.tensors import ALIGNMENT, is_aligned
from league.config.context import run_context
from league.config.load import load
from league.training.checkpoints.checkpoint import load_checkpoint
from league.training.learning.policies import policies_for_resume
from league.training.loop.session import resume, train

# A full model and an adapter, with all parts that an update can have. Batches have few prompts: products with one row
# were seen to depend on the alignment of their operands.
ALL = """
games.tiny_hanabi.matches = 16
policies.b = { weights = "lora", rank = 4 }
objective = { magnet = 0.1, magnet_every = 2, kl_reference = 0.05 }
credit.rule = "gae_turn"
loaded_snapshots = 1
[roles.policy]
"kuhn_poker/first" = "a"
"kuhn_poker/second" = "b"
"tiny_hanabi/signaller" = "b"
"tiny_hanabi/responder" = "a"
"""
DEATH = ("state/.iteration-000003", 0)  # iteration 2 is the last that is saved

# A process as a user starts it, after allocations of other sizes.
PROCESS = """
import sys
from pathlib import Path
import torch
held = [torch.empty(size) for size in range(1, {allocated})], [bytearray(size) for size in range(1, {allocated})]
from support.processes import runs
runs.live({arguments!r}, Path({log!r}), {run!r}, None, {{}}, None)
"""
PRODUCTS = ("linear", "matmul", "mm", "mv", "dot", "attention")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    file = tmp_path_factory.mktemp("config") / "config.toml"
    file.write_text(TINY.replace("iterations = 6", "iterations = 4") + ALL)
    return file


@pytest.fixture(scope="module")
def dead(config):
    """Return a run that died in its third iteration."""
    run = config.with_name("dead")
    ended = TrainingProcess(config, run_dir=run, die_at=DEATH).end()
    assert ended.status == -signal.SIGKILL, ended.output
    return run


@pytest.fixture
def killed(dead, tmp_path):
    return Path(shutil.copytree(dead, tmp_path / "killed"))


def tensors_of(policy):
    """Yield every tensor that a policy computes with, by name."""
    models = {"weights": policy.lm, "magnet": policy.magnet, "reference": policy.reference}
    for part, lm in models.items():
        for name, tensor in (*lm.model.named_parameters(), *lm.model.named_buffers()):
            yield f"{part}/{name}", tensor
        yield from ((f"{part}/{name}", tensor) for name, tensor in lm.parameters().items())
    for name, parameter in policy.parameters.items():
        yield f"masters/{name}", parameter
        yield from ((f"{moment}/{name}", value) for moment, value in policy.optimizer.state[parameter].items())
    yield from ((f"critic/{name}", tensor) for name, tensor in policy.critic.tensors().items())


def test_after_a_resume_every_tensor_is_aligned(killed):
    config = load(str(killed / "config.toml"))
    policies = policies_for_resume(run_context(config, killed))
    state = load_checkpoint(config, killed, policies)
    state.store.close()
    assert state.iteration == 2
    for policy in state.policies.values():
        tensors = dict(tensors_of(policy))
        kinds = {name.split("/")[0] for name in tensors}
        assert kinds == {"weights", "magnet", "reference", "masters", "exp_avg", "exp_avg_sq", "step", "critic"}
        assert [name for name, tensor in tensors.items() if not is_aligned(tensor)] == []


class Products(TorchDispatchMode):
    """Records the alignment of every matrix product's operands, backward passes included."""

    def __init__(self):
        super().__init__()
        self.operands = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if any(product in name for product in PRODUCTS):
            tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
            self.operands.append((name, [(t.shape, t.stride(), t.data_ptr() % ALIGNMENT) for t in tensors]))
        return func(*args, **(kwargs or {}))


@pytest.mark.thorough
def test_a_resumed_runs_operands_are_aligned_as_before(killed, config, tmp_path):
    with Products() as before:
        train(load(str(config)), tmp_path / "unbroken")
    with Products() as after:
        resume(killed)
    assert 200 < len(after.operands) < len(before.operands)
    assert after.operands == before.operands[-len(after.operands) :]


def process(arguments, run, allocated, padding):
    """Start ``league`` with ``padding`` more bytes of environment, after ``allocated`` allocations of two kinds."""
    arguments = ["train", *arguments, "--run-dir", str(run)]
    text = PROCESS.format(allocated=allocated, arguments=arguments, log=f"{run}.log", run=str(run))
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PADDING": "x" * padding}
    return subprocess.Popen([sys.executable, "-c", text], env=environment)


@pytest.mark.slow
def test_processes_with_other_memory_have_the_same_bits(killed, config, tmp_path):
    unbroken = tmp_path / "unbroken"
    started = [
        process([str(config)], unbroken, allocated=1, padding=0),
        process(["--resume"], killed, allocated=700, padding=5_001),
    ]
    assert [child.wait() for child in started] == [0, 0]
    assert contents(killed) == contents(unbroken)
