"""The measurement of a GPU, in its tiny form on a CPU, and the roofline on paper."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch

from arena import roofline as formulas
from arena.flops import COUNTED
from arena.lm.lora import Adapters, AdapterShape
from benchmarks.gpu import command, roofline, shapes, shards, sharing, timing, training
from benchmarks.gpu.session import Part, Session, Setup
from benchmarks.report.page import ROOT, insert

H100 = formulas.CARDS[2]
CPU = Setup("cpu", tiny=True)

# Imports what a machine with a GPU may lack as if it were not installed, and measures.
BARE = """
import sys, importlib.abc
LACKS = {"pyspiel", "open_spiel", "openskill", "tomli_w", "ray", "pettingzoo", "vllm", *EXTRA}
class Lacking(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in LACKS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Lacking())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in LACKS else find(name, package)
from benchmarks.gpu.command import main
sys.exit(main(sys.argv[1:]))
"""


def measured_without(libraries, words, out):
    """Return what is measured where neither game libraries nor others are."""
    code = BARE.replace("*EXTRA", ", ".join(map(repr, libraries)))
    process = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return json.loads(out.read_text())


@pytest.mark.thorough
def test_what_needs_settings_is_left_out_where_pydantic_is_missing(tmp_path):
    out = tmp_path / "figures.json"
    words = ["--device", "cpu", "--tiny", "--minutes", "30", "--out", str(out), "--parts", "update", "play"]
    parts = measured_without(("pydantic", "pydantic_core"), words, out)["parts"]
    assert parts["update"]["notes"] == ["Not measured: pydantic not installed."]
    assert "notes" not in parts["play"]


@pytest.mark.thorough
def test_the_tiny_form_runs_where_no_game_library_is_installed(tmp_path):
    out = tmp_path / "figures.json"
    words = ["--device", "cpu", "--tiny", "--minutes", "30", "--out", str(out)]
    words += ["--parts", "update", "play", "iteration", "learning", "parity", "vllm"]
    stored = measured_without((), words, out)
    parts = stored["parts"]
    assert stored["state"] == "complete"
    assert list(parts) == ["limits", "update", "play", "iteration", "learning", "parity", "vllm"]
    assert {"product_flops", "copy_bytes", "launch_seconds"} <= parts["limits"].keys()
    assert [case["key"] for case in parts["update"]["cases"]] == [
        "update/tiny/full/checkpointed/512",
        "update/tiny/LoRA/512",
    ]
    assert all(
        0.0 < case["mfu"] < 1.0 and sum(case["kernels"].values()) == pytest.approx(1.0)
        for case in parts["update"]["cases"]
    )
    assert {
        "play/tiny/8/prefill",
        "play/tiny/8/decode",
        "play/tiny/8/unshared/decode",
        "play/tiny/8/8 adapters together",
    } <= {case["key"] for case in parts["play"]["cases"]}
    assert all(case["tokens_per_second"] > 0.0 for case in parts["play"]["cases"])
    for what in ("CPU against device", "sampler against learner", "sampler against learner, adapters together"):
        assert parts["parity"][f"{what}/float32"] <= 1e-4
    assert parts["parity"]["gradient/float32"] <= 1e-3
    assert "notes" not in parts["parity"]
    for name in ("iteration", "learning"):
        assert parts[name]["notes"] == ["Not measured: pyspiel and openskill and tomli_w not installed."]
    assert "vllm" in parts["vllm"]["notes"][0]


@pytest.mark.thorough
def test_whole_iterations_run_in_their_tiny_form():
    session = Session(CPU, 30.0, None, {"name": "CPU"})
    parts = [Part("iteration", 1.0, training.iterations), Part("learning", 1.0, training.learning)]
    assert session.run(parts)
    measured = session.document["parts"]
    assert not any("notes" in part for part in measured.values()), measured
    (case,) = measured["iteration"]["cases"]
    assert case["iterations"] == 1
    assert 0.0 < case["time/play"] + case["time/learn"] < 1.0
    assert measured["learning"]["exploitability"][0]["value"] == pytest.approx(
        11 / 24, abs=0.05
    )  # untrained: near uniform


def test_what_was_measured_stays_when_the_time_is_over(tmp_path):
    def first(_, report):
        report.case(key="a", tokens_per_second=1.0)

    def fails(_, report):
        report.add(half=1)
        raise ValueError("a part of its own")

    def endless(_, report):
        report.case(key="b", tokens_per_second=2.0)
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # the session's own clock, which would ring in ten minutes
        while True:
            time.sleep(0.01)

    path = tmp_path / "figures.json"
    parts = [
        Part("first", 1.0, first),
        Part("fails", 1.0, fails),
        Part("endless", 1.0, endless),
        Part("never", 1.0, first),
    ]
    assert not Session(CPU, 10.0, path, {"name": "a card"}).run(parts)
    stored = json.loads(path.read_text())
    assert stored["state"] == "cut off (the time was over) in endless; not finished: endless, never"
    assert [case["key"] for name in ("first", "endless") for case in stored["parts"][name]["cases"]] == ["a", "b"]
    assert stored["parts"]["fails"]["notes"] == ["Failed: ValueError: a part of its own"]
    assert stored["parts"]["fails"]["half"] == 1
    assert roofline.measured_rates(tmp_path) == {"a card": {"a": 1.0, "b": 2.0}}


def test_a_case_that_does_not_fit_into_memory_is_told_and_the_next_begins(tmp_path):
    def part(_, report):
        with report.telling_of_failures("large"):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        report.case(key="small")

    session = Session(CPU, 1.0, None, {"name": "a card"})
    assert session.run([Part("part", 1.0, part)])
    figures = session.document["parts"]["part"]
    assert figures["notes"] == ["large: out of memory (CUDA out of memory. Tried to allocate 20.00 GiB)"]
    assert figures["cases"] == [{"key": "small"}]


def test_without_a_gpu_the_command_says_so(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert command.main([]) == 2
    assert "PyTorch finds no GPU here" in capsys.readouterr().err


def test_kernels_are_told_apart():
    names = ["ampere_bf16_s16816gemm_bf16_128x128", "void pytorch_flash::flash_fwd_kernel", "multi_tensor_apply_kernel"]
    assert [timing.kernel_class(name) for name in names] == ["products", "attention", "optimiser"]
    assert timing.shares_of([("gemm", 0.5), ("Memcpy HtoD", 0.25)], 1.0) == {
        "copies": 0.25,
        "products": 0.5,
        "idle": 0.25,
    }
    assert timing.mean_share("50\n[N/A]\n100\n") == [0.75]
    assert timing.mean_share("") == []


@pytest.mark.slow
def test_two_processes_play_and_learn_side_by_side():
    session = Session(CPU, 30.0, None, {"name": "CPU"})
    assert session.run([Part("processes", 1.0, sharing.two_processes), Part("shards", 1.0, shards.measure)])
    figures = session.document["parts"]["processes"]
    assert "failed" not in figures, figures
    assert figures["together"].keys() == figures["shares"].keys() == {"play", "update"}
    assert all(rate > 0.0 for rate in figures["together"].values())
    cases = session.document["parts"]["shards"]["cases"]
    assert [case["key"] for case in cases] == ["sharded/2 processes", "copied/2 processes"]
    assert all(case["tokens_per_second"] > 0.0 for case in cases)


# The roofline


def test_weights_are_those_that_the_models_cards_state():
    # Qwen3's cards: 0.44 B and 3.6 B parameters without embeddings; SmolLM2-135M has 134,515,008 with its norms.
    assert formulas.QWEN3_06B.layer_weights == pytest.approx(0.44e9, rel=0.01)
    assert formulas.QWEN3_4B.layer_weights == pytest.approx(3.6e9, rel=0.01)
    norms = 576 * (2 * 30 + 1)
    assert formulas.SMOLLM2.weights + norms == 134_515_008


def test_one_reply_on_an_h100_by_hand():
    """Two bytes for each of 595,984,384 weights and 512 tokens of 114,688 bytes, at 3.35 TB/s: 2,678 tokens/s."""
    work = formulas.decoding(formulas.QWEN3_06B, 1)
    assert work.bytes == 2 * 595_984_384 + 512 * 114_688
    assert work.rate(H100) == pytest.approx(2678, abs=1)
    # Its FLOPs: 2 · 595,984,384 for the weights, 4 · 28 · 16 · 128 · 512 for attention.
    assert work.flops == 2 * 595_984_384 + 4 * 28 * 16 * 128 * 512


@pytest.mark.parametrize("lora", [False, True])
def test_an_update_on_paper_is_what_the_learner_counts(lora):
    lm = shapes.random_model(shapes.TINY, "cpu", "float32")
    if lora:
        lm = Adapters(lm, "base").add(AdapterShape(formulas.RANK), seed=0)
    before = COUNTED.total
    lm.cost.add(1024, 1024 * 257 / 2, 512)
    work = formulas.updating(shapes.TINY, 1024, lora=lora, checkpointing=False, context=256)
    assert COUNTED.total - before == work.flops


def test_the_page_shows_the_roofline_that_the_formulas_give():
    text = command.PAGE.read_text(encoding="utf-8")
    table = roofline.table(roofline.measured_rates(command.RESULTS))
    assert insert(text, "roofline", table) == text, "python -m benchmarks --render writes it"
    assert "not measured" in roofline.table({})
    line = "| Qwen3-0.6B | write, 256 in flight |"
    assert line in roofline.table({"a card": {"play/Qwen3-0.6B/256/decode": 1234.4}})
    assert "1,234 (a card) |" in roofline.table({"a card": {"play/Qwen3-0.6B/256/decode": 1234.4}})
