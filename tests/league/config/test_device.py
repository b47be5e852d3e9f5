"""What a run leaves to the machine: its device, and how many tokens a pass of an update takes."""

import pytest

from arena.gpus import Gpu, least, multiplies_bfloat16
from arena.process import available_cores
from league.config import RunConfig
from league.config.load import chosen, load, sentence, to_toml

H100, SMALL = Gpu("NVIDIA H100 80GB HBM3", 81_559 << 20), Gpu("NVIDIA GeForce RTX 4090", 24_564 << 20)


def config(checkpointing=False, tokens=0, device="auto", engine="torch"):
    return RunConfig(
        games={"kuhn_poker": {}},
        model={"device": device},
        engine={"kind": engine},
        optimizer={"micro_batch_tokens": tokens, "checkpointing": checkpointing},
    )


def taken(settings, gpu):
    found = chosen(settings, gpu)
    return found.model.device, found.optimizer.micro_batch_tokens


@pytest.fixture(params=[True, False], ids=["bfloat16", "float32"])
def processor(request, monkeypatch):
    """Return the type for a processor that multiplies in bfloat16, and for one that does not."""
    monkeypatch.setattr("league.config.load.multiplies_bfloat16", lambda: request.param)
    return "bfloat16" if request.param else "float32"


@pytest.mark.parametrize("preset", ["smol", "smol-free"])
def test_without_a_gpu_the_small_presets_take_what_the_processor_multiplies(preset, processor, monkeypatch):
    monkeypatch.setattr("league.config.load.find_gpu", lambda: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    sentences = []
    run = load(preset, tell=sentences.append)
    processor = "float32" if preset == "smol-free" else processor  # masked replies alone have passes for it
    assert (run.model.device, run.model.dtype, run.threads) == ("cpu", processor, 0)
    assert run.optimizer.micro_batch_tokens == 1024
    (sentence,) = sentences
    assert sentence.startswith(f"Chosen for this machine (no GPU was found): device cpu, {processor}, ")
    assert sentence.endswith(", 1,024 tokens in a pass of an update.")
    assert "auto" not in to_toml(run)  # a run keeps what it was started with


@pytest.mark.parametrize("preset", ["smol", "smol-free"])
def test_with_a_gpu_the_small_presets_take_it_and_its_type(preset, processor, monkeypatch):
    monkeypatch.setattr("league.config.load.find_gpu", lambda: SMALL)
    run = load(preset)
    assert (run.model.device, run.model.dtype) == ("cuda", "bfloat16")
    assert load(preset, ["model.dtype=float32"]).model.dtype == "float32"
    assert load(preset, ["model.device=cpu"]).model.dtype == (processor if preset == "smol" else "float32")


@pytest.mark.parametrize(
    "change", ["policies.main.weights=full", "model.source=pocket", "policies.other.league_role=main_exploiter"]
)
def test_weights_that_are_not_all_under_adapters_stay_in_single_precision(change, monkeypatch):
    """A step in bfloat16 would be lost in rounding, or its logits be."""
    monkeypatch.setattr("league.config.load.find_gpu", lambda: None)
    monkeypatch.setattr("league.config.load.multiplies_bfloat16", lambda: True)
    assert load("smol", [change]).model.dtype == "float32"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("flags\t\t: fpu avx512_bf16 avx512vl\n", True),
        ("model name : X\nflags\t: amx_bf16 fpu\n", True),
        ("flags\t\t: fpu avx512f avx512_bf16_other\nbugs\t: avx512_bf16\n", False),
    ],
)
def test_a_processor_says_whether_it_multiplies_bfloat16(facts, expected, tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text(facts)
    assert multiplies_bfloat16(path) is expected
    assert not multiplies_bfloat16(tmp_path / "none")


def test_presets_for_gpus_take_one_and_fit_their_passes_to_it(monkeypatch):
    for gpu, tokens in ((None, 32_768), (H100, 32_768), (SMALL, 16_384)):
        monkeypatch.setattr("league.config.load.find_gpu", lambda gpu=gpu: gpu)
        for preset in ("qwen3-0.6b", "qwen3-1.7b", "qwen3-4b"):
            run = load(preset)
            assert (run.model.device, run.model.dtype, run.optimizer.micro_batch_tokens) == ("cuda", "bfloat16", tokens)


def test_a_gpu_is_taken_with_what_a_quarter_of_its_memory_holds():
    # 0.25 · 85,520,809,984 / 2,000,000 = 10,690 tokens, and 3,219 of the other: 8,192 and 2,048 are powers of two.
    assert taken(config(), H100) == ("cuda", 8192)
    assert taken(config(), SMALL) == ("cuda", 2048)
    assert taken(config(checkpointing=True), H100) == ("cuda", 32_768)


def test_what_is_stated_stays():
    assert taken(config(tokens=77), H100) == ("cuda", 77)
    assert taken(config(device="cpu"), H100) == ("cpu", 1024)
    assert taken(config(device="cuda:1", tokens=5), None) == ("cuda:1", 5)
    assert "NVIDIA H100 80GB HBM3, 86 GB" in sentence(chosen(config(), H100), H100)


def test_the_least_gpu_counts():
    assert least("NVIDIA H100 80GB HBM3, 81559\nNVIDIA GeForce RTX 4090, 24564\n") == SMALL
    assert least("No devices were found\n") is None


def test_threads_are_measured_once_and_the_run_keeps_them(monkeypatch):
    monkeypatch.setattr("league.config.load.find_gpu", lambda: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert load("smol", tell=lambda sentence: None).threads == 0, "as OMP_NUM_THREADS says"
    monkeypatch.delenv("OMP_NUM_THREADS")
    sentences = []
    run = load("smol", tell=sentences.append)
    assert 1 <= run.threads <= available_cores()
    assert f"threads {run.threads}," in sentences[0]
    assert f"threads = {run.threads}\n" in to_toml(run)
    assert load("smol", ["threads=7"]).threads == 7
    assert load("pocket-returns").threads == 1, "a preset that states a number keeps it"
