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


# The C library gives freed memory back at once, so that what is measured is what is alive, not what a heap has kept.
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": str(1 << 18)}


def measured(*words, allocator=GIVES_BACK):
    command = [sys.executable, str(ROOT / "tests/support/learning/memory_of_smollm2.py"), *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **allocator}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a peak anew")
@pytest.mark.parametrize(
    ("kind", "rank"),
    [
        pytest.param("full", None, marks=pytest.mark.slow),
        ("lora", 4),
        pytest.param("checkpointed", None, marks=pytest.mark.slow),
    ],
)
def test_a_learner_takes_the_memory_that_is_predicted(kind, rank):
    """Where all weights are trained, gradients and what layers keep are not alive at once, but a heap keeps both."""
    found = measured(kind, 512, allocator={} if kind == "full" else GIVES_BACK)
    kept = kind == "checkpointed"
    one = pass_bytes(
        SMOLLM2,
        found["tokens"],
        found["scored"],
        trained="all" if rank is None else "adapter",
        checkpointing=kept,
        **CPU,
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
@pytest.mark.parametrize("offload", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_each_of_two_processes_holds_half_and_what_is_predicted(offload, tmp_path):
    """In single precision a weight and its moments are 12 bytes, of both together: at the start, and between updates.

    So it is in an update, too, if moments are away, and else with gradients, 4 bytes more. Beyond these shares are one
    layer and the table of embeddings, their gradients, and what the pass keeps. While the first checkpoint is written,
    before any moment, it is a share of the weights, of their copy, and of a file.
    """
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    words = [memory_of_shards.__file__, str(tmp_path), *(["offload"] if offload else [])]
    subprocess.run([sys.executable, *words], env=environment, check=True)
    shape = memory_of_shards.SHAPE
    share, beyond = 12 * shape.weights / 2, gathered_bytes(shape, bytes_each=4)
    files = 2 * max(4 * shape.vocabulary * shape.hidden, memory_of_shards.FILE_BYTES) / 2  # one is made, and written
    for rank in (0, 1):
        found = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert found["start"] <= 1.1 * share
        assert found["save"] <= 1.1 * (8 * shape.weights / 2 + files)
        assert found["between"] <= 1.1 * (share / 3 if offload else share)
        assert found["update"] <= 1.1 * (share if offload else share * 4 / 3 + beyond)
        one = pass_bytes(shape, found["tokens"], found["scored"], trained="shards", checkpointing=True, **CPU)
        predicted = state_bytes(shape, rank=None, bytes_each=4, offload=offload) / 2 + beyond + one
        assert predicted == pytest.approx(found["update"], rel=0.1)


def test_bytes_of_a_trained_weight_by_hand():
    """In bfloat16 two for the model, four each for master, gradient and both moments; in float32 no master."""
    assert state_bytes(SMOLLM2, rank=None, bytes_each=2) == 18 * SMOLLM2.weights
    assert state_bytes(SMOLLM2, rank=None, bytes_each=4) == 16 * SMOLLM2.weights
    adapter = SMOLLM2.adapter_weights(8)
    assert state_bytes(SMOLLM2, rank=8, bytes_each=2) == 2 * SMOLLM2.weights + 16 * adapter
    assert state_bytes(SMOLLM2, rank=8, bytes_each=2, offload=True) == 2 * SMOLLM2.weights + 8 * adapter
    assert state_bytes(SMOLLM2, rank=None, bytes_each=4, offload=True) == 8 * SMOLLM2.weights
