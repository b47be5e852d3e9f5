"""A pocket model was trained on brief cards; one that has read books gets all rules."""

import json

import pytest

from roles.role import Wording
from roles.wording import wording_for

POCKET = {"eos_token": "<|end|>", "pad_token": "<|pad|>", "tokenizer_class": "TokenizersBackend"}


@pytest.fixture
def base(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "tokenizer_config.json").write_text(json.dumps(POCKET))
    return tmp_path / "base"


def test_a_pocket_model_is_known_by_its_tokenizer(base):
    assert wording_for(base) is Wording.BRIEF
    (base / "tokenizer_config.json").write_text(json.dumps(POCKET | {"eos_token": "<|im_end|>"}))
    assert wording_for(base) is Wording.FULL


@pytest.mark.parametrize("name", ["../base", "{base}"])
def test_an_adapter_is_what_its_base_is(base, name):
    adapter = base.parent / "adapter"
    adapter.mkdir()
    config = {"base_model_name_or_path": name.format(base=base)}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    assert wording_for(adapter) is Wording.BRIEF


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_what_says_nothing_is_no_pocket_model(base, text):
    (base / "tokenizer_config.json").write_text(text)
    assert wording_for(base) is Wording.FULL
    assert wording_for("Qwen/Qwen3-0.6B") is Wording.FULL


def test_a_run_reads_what_it_states_or_else_what_the_model_that_it_began_from_reads(tmp_path):
    runs = {"first": 'source = "pocket"', "second": f'source = "{tmp_path}/first"', "hub": 'source = "Qwen/Qwen3-0.6B"'}
    for name, source in runs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text(f"[model]\n{source}\n")
    assert [wording_for(tmp_path / name) for name in runs] == [Wording.BRIEF, Wording.BRIEF, Wording.FULL]
    (tmp_path / "first" / "config.toml").write_text('[roles]\nwording = "full"\n[model]\nsource = "pocket"\n')
    assert [wording_for(tmp_path / name) for name in runs] == [Wording.FULL, Wording.FULL, Wording.FULL]
