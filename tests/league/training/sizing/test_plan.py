"""Plans on paper: which card holds what, what costs time, and that what does not fit is told with what mends it."""

import json

import pytest

from arena.roofline import CARDS, KNOWN, QWEN3_4B, Card, Shape, decoding, updating
from games.common.errors import UsageError
from league.cli import main
from league.config.load import load
from league.training.sizing.cards import split
from league.training.sizing.facts import Gpus, parse_gpus, read_rates, shape_of
from league.training.sizing.plan import plan, plan_here

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
    with pytest.raises(UsageError, match="it is not a file of"):
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


SERVERS = ["engine.kind=vllm_server", "cluster.engine_gpus=0", "cluster.learner_gpus=0"]
ELSEWHERE = [
    *("trainer.kind=tinker", "async_learners.processes=none", "async_learners.max_staleness=0"),
    *("optimizer.processes=1", "optimizer.sharded=false"),
]


@pytest.mark.parametrize(("cards", "kv_heads"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1)])
def test_an_engine_of_several_cards_by_hand(cards, kv_heads):
    """Of Qwen3-32B: a part of the weights a card, whole heads of keys and values, and half of each adapter cut."""
    words = [f"engine.vllm_server.tensor_parallel={cards}", "engine.vllm_server.replicas=1", "in_flight=10000"]
    words += ["engine.vllm.max_loras=4", "engine.vllm.max_lora_rank=32", "engine.vllm.gpu_memory_utilization=0.9"]
    config = load("qwen3-4b", ["threads=1", "model.source=Qwen/Qwen3-32B", *SERVERS, *words])
    made = plan(config, shape_of(config), parse_gpus(f"{cards + 4}xH200"))
    hidden, layers, width, middle, vocabulary = 5120, 64, 64 * 128, 25_600, 151_936
    weights = layers * (2 * hidden * 128 * (64 + 8) + 3 * hidden * middle) + 2 * hidden * vocabulary
    begin = (hidden + width // cards) + 2 * (hidden + 1024 // cards) + 2 * (hidden + middle // cards)
    end = (width // cards + hidden) + (middle // cards + hidden)
    held = 2 * weights / cards + 4 * 2 * 32 * layers * (begin + end) + 2e9
    reply = 2 * layers * kv_heads * 128 * 2 * (256 + 1024)
    engine = made.parts[0]
    assert made.replies == int((0.9 * 141e9 - held) // reply)
    assert engine.bytes == pytest.approx(held + made.replies * reply)
    assert (engine.number, made.engines, made.parallel) == (cards, cards, cards)
    assert "4 adapters" in engine.note


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_memory_for_keys_and_values_that_is_given_is_counted_whatever_the_share(share):
    words = ["engine.vllm.kv_cache_gib=5", f"engine.vllm.gpu_memory_utilization={share}", "in_flight=10000"]
    made = planned("8xH100", *words)
    reply = 2 * 36 * 8 * 128 * 2 * (256 + 1024)  # of Qwen3-4B: 36 layers, 8 heads of keys and as many of values
    assert made.replies == 5 * 2**30 // reply == 28
    least = planned("8xH100", "engine.vllm.kv_cache_gib=0.01", "in_flight=1").parts[0].bytes
    assert made.parts[0].bytes - least == pytest.approx(28 * reply)


@pytest.mark.parametrize(("gib", "cause"), [(80, "with engine.vllm.kv_cache_gib = 80"), (0.01, "its share is")])
def test_keys_and_values_that_do_not_fit_are_told(gib, cause):
    made = planned("8xH100", f"engine.vllm.kv_cache_gib={gib}")
    assert cause in made.misfits[0]
    assert made.misfits[0].endswith("set engine.vllm.kv_cache_gib = none")
    assert planned("8xH100").fits


def test_two_cards_of_one_engine_read_its_weights_twice_as_fast():
    alone = ["engine.vllm_server.replicas=2", "engine.vllm_server.tensor_parallel=1", "in_flight=64"]
    pair = ["engine.vllm_server.replicas=1", "engine.vllm_server.tensor_parallel=2", "in_flight=64"]
    one, two = (planned("6xH100", *SERVERS, *words) for words in (alone, pair))
    assert one.engines == two.engines == 2
    assert one.play / 2 < two.play < one.play, "more replies in flight, of which each has its keys and values read"


def test_servers_and_learners_have_cards_of_their_own():
    of = ["threads=1", *SERVERS, "engine.vllm_server.replicas=2", "engine.vllm_server.tensor_parallel=2"]
    config = load("qwen3-4b", of)  # whose learner is four processes
    found = [split(config, count) for count in (1, 2, 3, 4, 6, 8, 16)]
    assert found == [
        (1, 1, True),
        (2, 2, True),
        (2, 1, False),
        (2, 2, False),
        (4, 2, False),
        (4, 4, False),
        (8, 8, False),
    ]
    given = load("qwen3-4b", [*of, 'engine.vllm_server.urls=["http://a:1", "http://b:1"]'])
    assert split(given, 8) == (0, 4, False), "all of ours learn"
    made = plan(given, shape_of(given), parse_gpus("8xH100"))
    assert [part.name for part in made.parts] == ["learner", "driver (main memory)"]
    assert any("are taken to be cards such as these" in warning for warning in made.warnings)


@pytest.mark.parametrize(
    ("gpus", "words", "sentence"),
    [
        ("8xH100", ["engine.vllm_server.tensor_parallel=3"], "_parallel = 3 does not divide the model's 32 heads"),
        ("1xH100", ["engine.vllm_server.tensor_parallel=2"], "an engine takes 2 cards, and 1 would play"),
        (
            "8xH100",
            [
                *("model.source=Qwen/Qwen3-32B", "engine.vllm_server.replicas=4", "optimizer.micro_batch_tokens=2048"),
                *("roles.max_reply_tokens=16384", "engine.vllm.max_model_len=32768"),
            ],
            "set engine.vllm_server.tensor_parallel = 2 and engine.vllm_server.replicas = 2",
        ),
    ],
)
def test_engines_that_cannot_be_are_told(gpus, words, sentence):
    words = [*SERVERS, "engine.vllm.gpu_memory_utilization=0.9", *words]
    made = planned(gpus, *words)
    assert not made.fits
    assert sentence in made.misfits[0]
    if "set " in sentence:
        mended = [setting.replace(" ", "") for setting in sentence.removeprefix("set ").split(" and ")]
        assert planned(gpus, *[word for word in words if "replicas" not in word], *mended).fits


def test_what_a_trainer_elsewhere_takes_is_not_counted():
    here, there = planned("8xH100"), planned("8xH100", *ELSEWHERE)
    assert [part.name for part in there.parts] == ["engine", "driver (main memory)"]
    assert (there.engines, there.learners, there.learn) == (8, 0, 0.0)
    assert any("elsewhere" in warning for warning in there.warnings)
    assert not any("elsewhere" in warning for warning in here.warnings)
    adapter = 4 * QWEN3_4B.adapter_weights(32)
    assert there.parts[-1].bytes == 2 * QWEN3_4B.weights + adapter, "without moments and gradients"
    assert here.parts[-1].bytes > there.parts[-1].bytes or here.parts[-1].bytes == 2 * QWEN3_4B.weights + 4 * adapter
    alone = planned("1xH100", *ELSEWHERE, "cluster.engine_gpus=0")
    assert [part.name for part in alone.parts] == ["engine", "copy", "driver (main memory)"]
    assert alone.parts[1].bytes == 2 * QWEN3_4B.weights + adapter
    scored = planned("1xH100", *ELSEWHERE, "cluster.engine_gpus=0", "objective.kl_reference=0.1")
    assert scored.parts[1].bytes > alone.parts[1].bytes, "the reference's passes are here"


def test_moments_that_are_away_take_no_memory_of_a_card_and_some_time():
    full = ["policies.main.weights=full", "optimizer.sharded=true", "optimizer.micro_batch_tokens=2048"]
    here, away = planned("8xH100", *full), planned("8xH100", *full, "optimizer.offload=true")
    assert here.parts[1].bytes - away.parts[1].bytes == pytest.approx(8 * QWEN3_4B.weights / 4)
    assert away.parts[2].bytes - here.parts[2].bytes == pytest.approx(8 * QWEN3_4B.weights)
    steps = load("qwen3-4b", ["threads=1"]).optimizer.inner_steps
    assert away.learn - here.learn == pytest.approx(steps * 2 * 8 * QWEN3_4B.weights / 4 / 25e9)
    large = [*full, "model.source=Qwen/Qwen3-14B", "engine.vllm.gpu_memory_utilization=0.9"]
    told = planned("6xA100", *large).misfits[0]
    assert told.endswith("set optimizer.offload = true")
    assert planned("6xA100", *large, "optimizer.offload=true").fits
