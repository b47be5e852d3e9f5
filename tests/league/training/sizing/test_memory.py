"""What a learner and an engine hold, on paper and measured: within a tenth on SmolLM2's shape."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.learning import memory_of_shards
from support.source import ROOT

from arena.roofline import SMOLLM2, gathered_bytes, layer_bytes, pass_bytes, reply_bytes, state_bytes

CPU = {"bytes_each": 4, "on_gpu": False}


def measured(*words):
    command = [sys.executable, str(ROOT / "tests/support/learning/memory_of_smollm2.py"), *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a peak anew")
@pytest.mark.parametrize(("kind", "rank"), [("full", None), ("lora", 4), ("checkpointed", None)])
def test_a_learner_takes_the_memory_that_is_predicted(kind, rank):
    found = measured(kind, 512)
    kept = kind == "checkpointed"
    one = pass_bytes(
        SMOLLM2, found["tokens"], found["scored"], lora=rank is not None, full=rank is None, checkpointing=kept, **CPU
    )
    assert state_bytes(SMOLLM2, rank=rank, bytes_each=4) + one == pytest.approx(found["bytes"], rel=0.1)


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a peak anew")
def test_an_engine_takes_the_memory_that_is_predicted():
    found = measured("play", 0)
    replies = found["replies"] * reply_bytes(SMOLLM2, found["tokens"], **CPU)
    predicted = 4 * SMOLLM2.weights + replies + layer_bytes(SMOLLM2, found["pass"], 4)
    assert predicted == pytest.approx(found["bytes"], rel=0.1)


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a peak anew")
def test_each_of_two_processes_holds_half_and_what_is_predicted(tmp_path):
    """Between updates 12 bytes a weight, of both together, in single precision: the weight and both moments."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    subprocess.run([sys.executable, memory_of_shards.__file__, str(tmp_path)], env=environment, check=True)
    shape = memory_of_shards.SHAPE
    for rank in (0, 1):
        found = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert found["start"] <= 1.1 * 12 * shape.weights / 2
        assert found["between"] <= 1.1 * 12 * shape.weights / 2
        one = pass_bytes(shape, found["tokens"], found["scored"], lora=False, full=False, checkpointing=True, **CPU)
        predicted = state_bytes(shape, rank=None, bytes_each=4) / 2 + gathered_bytes(shape, bytes_each=4) + one
        assert predicted == pytest.approx(found["update"], rel=0.1)


def test_bytes_of_a_trained_weight_by_hand():
    """In bfloat16 two for the model, four each for master, gradient and both moments; in float32 no master."""
    assert state_bytes(SMOLLM2, rank=None, bytes_each=2) == 18 * SMOLLM2.weights
    assert state_bytes(SMOLLM2, rank=None, bytes_each=4) == 16 * SMOLLM2.weights
    adapter = SMOLLM2.adapter_weights(8)
    assert state_bytes(SMOLLM2, rank=8, bytes_each=2) == 2 * SMOLLM2.weights + 16 * adapter
