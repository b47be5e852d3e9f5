"""A model's folder that a stranger has made to harm is refused in a sentence, whatever the libraries make of it."""

import json
import struct

import pytest
from support.models.pocket import pocket

from arena.lm.language_model import LanguageModel
from arena.lm.tokenization import ChatTokenizer, unreadable
from games.common.errors import UsageError

DEEP = b"[" * 100_000
HUGE = b'{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'


def changed(name, **changes):
    def change(folder):
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(content | changes))

    return change


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content)


@pytest.fixture
def folder(tmp_path):
    pocket().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (changed("config.json", num_hidden_layers=10**9, layer_types=None), "claims 1,000,000,000 layers"),
        (changed("config.json", text_config={"n_layer": 10**9}), "claims 1,000,000,000 layers"),
        (changed("config.json", hidden_size=10**7), r"claims a model of .* weights"),
        (changed("config.json", vocab_size=10**12), r"claims a model of .* weights"),
        (changed("config.json", head_dim=10**12), r"claims a model of .* weights"),
        (changed("config.json", hidden_size="x"), "hidden_size"),
        (changed("config.json", hidden_size=-3), "could be loaded"),
        (changed("config.json", model_type="nonesuch"), "nonesuch"),
        (changed("config.json", model_type="evil", auto_map={"AutoConfig": "evil.E"}), "code of its own"),
        (written("config.json", DEEP), "nested too deeply"),
        (written("config.json", b"[]"), "no JSON object"),
        (written("config.json", b"\xff"), "could be loaded"),
        (written("tokenizer.json", DEEP), "could be loaded"),
        (written("tokenizer.json", b"{}"), "could be loaded"),
        (written("tokenizer_config.json", DEEP), "could be loaded"),
        (changed("tokenizer.json", model={"type": "BPE", "vocab": {"a": -1}, "merges": []}), "could be loaded"),
        (written("model.safetensors", struct.pack("<Q", 1 << 62) + bytes(1 << 16)), "header too large"),
        (written("model.safetensors", struct.pack("<Q", len(HUGE)) + HUGE + bytes(1 << 16)), "not fully covered"),
        (written("model.safetensors", struct.pack("<Q", len(HUGE)) + HUGE), "files have 86 bytes"),
        (written("model.safetensors", struct.pack("<Q", len(DEEP)) + DEEP), "could be loaded"),
        (written("model.safetensors", b""), "could be loaded"),
        (written("generation_config.json", DEEP), "could be loaded"),
    ],
)
def test_a_folder_that_cannot_be_believed_is_refused(folder, harm, told):
    harm(folder)
    with pytest.raises(UsageError, match=told):
        LanguageModel.load(folder)


@pytest.mark.parametrize("content", [struct.pack("<Q", 1 << 62), struct.pack("<Q", len(HUGE)) + HUGE, b""])
def test_weights_that_cannot_be_believed_are_refused_where_a_model_takes_them(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(UsageError, match="could be loaded"):
        pocket().with_weights(folder)


def test_a_tokenizer_is_read_with_the_same_care(folder):
    changed("config.json", num_hidden_layers=10**9, layer_types=None)(folder)
    with pytest.raises(UsageError, match="claims"):
        ChatTokenizer.read(folder)


def test_memory_that_runs_out_is_not_told_as_a_wrong_folder(folder, monkeypatch):
    def full(*_, **__):
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr("arena.lm.language_model.AutoModelForCausalLM.from_pretrained", full)
    with pytest.raises(RuntimeError, match="out of memory"):
        LanguageModel.load(folder)
    assert "KeyError" in str(unreadable("m", KeyError()))
