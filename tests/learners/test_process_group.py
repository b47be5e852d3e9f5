"""Two processes take the update that one takes: whole weights and adapters, copies and shards."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from support.learning import update_processes
from support.source import ROOT

from learners.batching import FreeRow
from learners.parallel.process_group import SINGLE_PROCESS, TorchProcessGroup


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return the folder with the results of two gloo processes."""
    folder = tmp_path_factory.mktemp("team")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    command = [sys.executable, update_processes.__file__, str(folder)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("name", update_processes.CASES)
def test_two_processes_take_the_update_of_one(results, name):
    alone = update_processes.updated(*update_processes.CASES[name], SINGLE_PROCESS)
    together = [load_file(results / f"{name.replace('/', '-')}-{rank}.safetensors") for rank in (0, 1)]
    for key, expected in alone.items():
        assert torch.equal(together[0][key], together[1][key]), key
        torch.testing.assert_close(together[0][key], expected, rtol=1e-4, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}")
    moved = [(alone[key] - start).abs().max() for key, start in fresh(name).items()]
    assert max(moved) > 1e-3


def fresh(name):
    kind = update_processes.CASES[name][0]
    return {key: value for key, value in update_processes.policy(kind).tensors().items() if key.startswith("weights/")}


rows = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 200)), max_size=40)


class FixedRank(TorchProcessGroup):
    def __init__(self, rank, size):
        self.rank, self.size = rank, size


@given(rows, st.integers(1, 8))
def test_every_row_has_one_process_and_tokens_are_spread_evenly(lengths, size):
    made = [
        FreeRow("g", "g", (i, *(5,) * (prompt - 1)), (6,) * reply, 1.0, 1.0, 1.0, 0.0, 0.0)
        for i, (prompt, reply) in enumerate(lengths)
    ]
    units = [(index,) for index in range(len(made))]
    shares = [FixedRank(rank, size).local_units(units, made) for rank in range(size)]
    assert [unit for share in shares for unit in share] == units
    tokens = [sum(sum(lengths[index]) for (index,) in share) for share in shares]
    longest = max((p + r for p, r in lengths), default=0)
    assert max(tokens) <= sum(tokens) / size + longest
