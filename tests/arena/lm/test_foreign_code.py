"""A folder or hub id brings weights and words, never code: what its files name is not run, whoever answers yes."""

import io
import json

import pytest
from support.models.pocket import pocket

from arena.lm.language_model import LanguageModel
from arena.lm.tokenization import ChatTokenizer, read_tokenizer
from games.common.errors import UsageError

MODULE = """
from pathlib import Path
Path({mark!r}).write_text("run")
from transformers import PreTrainedConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

class Config(Qwen3Config):
    model_type = "stranger"

class Model(Qwen3ForCausalLM):
    config_class = Config

class Tokenizer(PreTrainedTokenizerFast):
    pass
"""
AUTO_MAP = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}


@pytest.fixture
def mark(tmp_path):
    """Return the file that the folder's code would write."""
    return tmp_path / "mark"


@pytest.fixture
def folder(tmp_path, mark, monkeypatch):
    """Return a model's folder with code beside it, in a place where every question is answered with yes."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 1000))
    folder = tmp_path / "model"
    pocket().save(folder)
    (folder / "code.py").write_text(MODULE.format(mark=str(mark)))
    return folder


def change(path, **keys):
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


@pytest.mark.parametrize("load", [LanguageModel.load, LanguageModel.without_data, ChatTokenizer.read])
def test_a_model_of_its_own_code_is_refused_with_the_reason(folder, mark, load):
    change(folder / "config.json", model_type="stranger", auto_map=AUTO_MAP)
    with pytest.raises(UsageError, match=r"model.* needs code of its own, which is never run"):
        load(folder)
    assert not mark.exists()


def test_code_for_a_family_that_is_known_is_passed_over(folder, mark):
    change(folder / "config.json", auto_map=AUTO_MAP)
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text(MODULE.format(mark=str(mark)))
    assert type(LanguageModel.load(folder).model).__name__ == "Qwen3ForCausalLM"
    assert not mark.exists()


def test_a_tokenizer_of_its_own_code_is_refused_with_the_reason(folder, mark):
    own = {"tokenizer_class": "Tokenizer", "auto_map": {"AutoTokenizer": [None, "code.Tokenizer"]}}
    change(folder / "tokenizer_config.json", **own)
    change(folder / "config.json", model_type="stranger")
    with pytest.raises(UsageError, match=r"model.* needs code of its own, which is never run"):
        read_tokenizer(folder)
    assert not mark.exists()
