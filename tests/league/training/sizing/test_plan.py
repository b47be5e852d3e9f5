"""Plans on paper: which card holds what, what costs time, and that what does not fit is told with what mends it."""

import json

import pytest

from arena.roofline import CARDS, KNOWN, QWEN3_4B, Card, Shape, decoding, updating
from games.common.errors import UsageError
from league.cli import main
from league.config.load import load
from league.training.sizing.facts import Gpus, parse_gpus, read_rates, shape_of
from league.training.sizing.plan import plan, plan_here, split

H100 = CARDS[2]
FULL = ["policies.main.weights=full", "model.source=Qwen/Qwen3-8B"]


def planned(gpus="8xH100", *overrides, preset="qwen3-4b"):
    config = load(preset, ["threads=1", *overrides])
    return plan(config, shape_of(config), parse_gpus(gpus))


def test_the_shape_is_what_config_json_states(tmp_path):
    stated = {
        "hidden_size": 2560,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 9728,
        "vocab_size": 151_936,
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(stated))
    config = load("qwen3-4b", ["threads=1", f"model.source={tmp_path}"])
    assert shape_of(config)._replace(name="", family="") == QWEN3_4B._replace(name="", family="")
    assert not Shape.of("", {**stated, "tie_word_embeddings": False}).tied
    billions = {name: round(shape.weights / 1e9, 1) for name, shape in KNOWN.items()}
    assert billions["Qwen/Qwen3-8B"] == 8.2, "as its card states; 14.8 and 32.8 of the others"
    assert (billions["Qwen/Qwen3-14B"], billions["Qwen/Qwen3-32B"]) == (14.8, 32.8)


def test_cards_are_divided_as_the_cluster_is():
    config = load("qwen3-4b", ["threads=1"])
    assert [split(config, count) for count in (1, 2, 8, 64)] == [
        (1, 1, True),
        (1, 1, False),
        (4, 4, False),
        (32, 32, False),
    ]
    apart = load("mgrpo-4b", ["threads=1"])
    assert split(apart, 8) == (4, 4, False), "four play, two policies learn on two each"
    each = load("mgrpo-4b", ["threads=1", "async_learners.processes=each", "optimizer.processes=1"])
    assert split(each, 6) == (4, 2, False)
    assert split(load("mgrpo-4b", ["threads=1", "async_learners.processes=none"]), 6) == (4, 2, False)
    made = planned()
    engine, learner, _ = made.parts
    assert engine.bytes <= 0.9 * H100.memory < engine.bytes + made.shape.kv_bytes() * (256 + 1024)
    assert learner.bytes < 30e9
    assert made.fits
    assert made.seconds == max(made.play, made.learn + made.transfer, made.driver), "they overlap"


@pytest.mark.parametrize(
    ("gpus", "overrides", "sentence"),
    [
        ("8xH100", ["policies.main.weights=full"], "set optimizer.micro_batch_tokens = 2048"),
        ("8xH100", [*FULL, "optimizer.micro_batch_tokens=2048"], "set optimizer.sharded = true"),
        ("1xH100", [], "set engine.vllm.gpu_memory_utilization = 0.6"),
        ("1x4090", ["model.source=Qwen/Qwen3-32B"], "take more memory, more cards, or a smaller model"),
    ],
)
def test_what_does_not_fit_is_told_with_what_mends_it(gpus, overrides, sentence):
    made = planned(gpus, *overrides)
    assert not made.fits
    assert sentence in made.misfits[0]
    if "set " in sentence:  # and it does
        assert planned(gpus, *overrides, sentence.removeprefix("set ").replace(" ", "")).fits


def test_adapters_that_wait_for_slots_are_told():
    [told] = [w for w in planned("64xH100", "engine.vllm.max_loras=2").warnings if "slots" in w]
    assert told.startswith("2 adapter slots, 5 may be asked for: +")
    assert told.endswith("set engine.vllm.max_loras = 5")
    assert not [w for w in planned("64xH100").warnings if "slots" in w]


def test_measured_rates_take_the_place_of_assumed_ones(tmp_path):
    work, step = updating(QWEN3_4B, 8192, lora=True, checkpointing=True), decoding(QWEN3_4B, 256)
    cases = [
        {"key": "update/Qwen3-4B/LoRA/checkpointed/8192", "tokens_per_second": 0.25 * work.rate(H100)},
        {"key": "play/Qwen3-4B/256/decode", "tokens_per_second": 0.75 * step.rate(H100)},
    ]
    path = tmp_path / "h100.json"
    document = {
        "date": "2026-11-25T10:00",
        "device": {"name": "NVIDIA H100 80GB HBM3"},
        "parts": {"a": {"cases": cases}},
    }
    path.write_text(json.dumps(document))
    rates = read_rates(path)
    assert rates[:2] == pytest.approx((0.75, 0.25))
    assert rates.source == "measured on NVIDIA H100 80GB HBM3, 2026-11-25"
    path.write_text("{}")
    with pytest.raises(UsageError, match="it is no file of"):
        read_rates(path)


@pytest.mark.parametrize("text", ["8xB100", "0xH100", "eight", ""])
def test_unknown_cards_are_refused(text):
    with pytest.raises(UsageError, match="such as 8xH100"):
        parse_gpus(text)


def test_a_run_that_cannot_fit_this_machine_is_refused_before_it_has_a_folder(tmp_path, monkeypatch, capsys):
    config = load("smol", ["threads=1"])
    assert plan_here(config, shape_of(config, "main")).fits
    small = Card("processor", 1e11, 1e10, 1e9)
    monkeypatch.setattr("league.training.sizing.plan.this_machine", lambda device: small)
    assert not plan_here(config, shape_of(config)).fits
    assert plan(config, shape_of(config), Gpus(1, small)).misfits == plan_here(config, shape_of(config)).misfits
    monkeypatch.setattr("league.training.loop.readiness.check_start", lambda *_: None)
    assert main(["train", "smol", "--run-dir", str(tmp_path / "run")]) == 2
    assert "This run does not fit 1xprocessor: " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_plans_stand_side_by_side(capsys):
    assert main(["plan", "qwen3-4b", "--gpus", "1xH100", "8xH100"]) == 0
    printed = capsys.readouterr().out
    assert "1xH100 SXM     8xH100 SXM" in printed
    assert "1xH100 SXM does not fit: " in printed
    assert main(["plan", "qwen3-4b", "--gpus", "1xH100", "--json"]) == 1
    [made] = json.loads(capsys.readouterr().out)
    assert not made["fits"]
