"""Adapters on disk are in PEFT's format: each side plays what the other wrote, and other adapters are refused."""

import json

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from support.models.adapters import PROMPTS, REPLIES, SHAPE, SYSTEM, logprobs, scrambled
from support.models.pocket import plain_logprobs, pocket
from transformers import AutoModelForCausalLM

from arena.lm.lora import Adapters, load_model
from games.common.errors import UsageError


@pytest.fixture
def adapters():
    return Adapters(pocket(), "../../base")


def test_it_shares_prefixes_and_agrees_with_peft_alone(tmp_path):
    """Our log-probs, with a shared prefix, against PEFT and transformers, one sequence at a time."""
    pocket().save(tmp_path / "base")
    view = scrambled(Adapters(pocket(), "../base").add(SHAPE, 0))
    view.save(tmp_path / "adapter")
    (chunk,) = view.plan(PROMPTS, [(reply,) for reply in REPLIES], 8192)
    assert len(chunk.prefix) == len(SYSTEM)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "base", attn_implementation="eager")
    peft = PeftModel.from_pretrained(plain, tmp_path / "adapter").eval()
    rows = logprobs(view)
    for prompt, reply, row in zip(PROMPTS, REPLIES, rows, strict=True):
        assert row == pytest.approx(plain_logprobs(peft, prompt, reply), abs=1e-5)
        with peft.disable_adapter():
            assert row != pytest.approx(plain_logprobs(peft, prompt, reply), abs=1e-2)
    for again, row in zip(logprobs(load_model(tmp_path / "adapter")), rows, strict=True):
        assert again == pytest.approx(row, abs=1e-6)


def test_an_adapter_that_peft_saved_plays_here(tmp_path):
    pocket().save(tmp_path / "base")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "base", attn_implementation="eager").eval()
    peft = get_peft_model(plain, LoraConfig(r=3, lora_alpha=5, target_modules=["q_proj", "down_proj"]))
    with torch.no_grad():
        for name, weight in peft.named_parameters():
            if "lora_" in name:
                weight.normal_(std=0.3)
    peft.save_pretrained(tmp_path / "adapter")
    ours = logprobs(Adapters(pocket(), "base").with_weights(tmp_path / "adapter"))
    for prompt, reply, row in zip(PROMPTS, REPLIES, ours, strict=True):
        assert row == pytest.approx(plain_logprobs(peft, prompt, reply), abs=1e-5)


def test_adapters_that_do_not_fit_are_refused_by_name(adapters, tmp_path):
    Adapters(pocket(hidden_size=16), "base").add(SHAPE, 0).save(tmp_path / "narrow")
    Adapters(pocket(layers=1), "base").add(SHAPE, 0).save(tmp_path / "shallow")
    before = len(list(adapters.base.model.parameters()))
    for name, reason in (("narrow", r"\(16, 4\).*\(32, 4\)"), ("shallow", "nothing for model.layers.1")):
        with pytest.raises(UsageError, match=rf"adapter in .*{name} has .*{reason}"):
            adapters.with_weights(tmp_path / name)
    assert len(list(adapters.base.model.parameters())) == before


def test_adapters_of_other_kinds_are_refused(adapters, tmp_path):
    adapters.add(SHAPE, 0).save(tmp_path)
    path = tmp_path / "adapter_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "use_dora": True}))
    with pytest.raises(UsageError, match=r"other than plain LoRA \(use_dora\)"):
        adapters.with_weights(tmp_path)
    path.write_text(json.dumps({**config, "target_modules": ".*proj"}))
    with pytest.raises(UsageError, match="a pattern of target_modules"):
        adapters.with_weights(tmp_path)
    path.write_text(json.dumps({**config, "target_modules": ["c_attn"]}))
    with pytest.raises(UsageError, match=rf"adapter in {tmp_path} cannot be put on its base.*named 'c_attn'"):
        adapters.with_weights(tmp_path)
    path.write_text("{")
    with pytest.raises(UsageError, match=r"adapter_config\.json cannot be read"):
        adapters.with_weights(tmp_path)


def test_equal_adapters_are_equal_files(adapters, tmp_path):
    view = scrambled(adapters.add(SHAPE, 0))
    view.save(tmp_path / "one")
    view.frozen_copy().save(tmp_path / "two")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    targets = json.loads((tmp_path / "one" / "adapter_config.json").read_text())["target_modules"]
    assert targets == sorted(targets)
