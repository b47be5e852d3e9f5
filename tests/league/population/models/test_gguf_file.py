"""A GGUF file becomes the model that it was made from; a file that is not a model is told in a sentence."""

import resource

import pytest
import torch
from gguf import GGMLQuantizationType
from support.models.gguf import TEXT, tiny_tokenizer, write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from games.common.errors import UsageError
from league.cli import main
from league.population.models.cache import models_folder, stored_models
from league.population.models.source import model_folder


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAGUE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Return a GGUF file, and the model that its weights were taken from."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return path, write_gguf(path)


def entries():
    return [path.name for path in models_folder().iterdir() if path.name != ".lock"] if models_folder().is_dir() else []


def test_the_folder_says_what_the_model_said_before_it_was_a_gguf_file(original):
    path, model = original
    folder = model_folder(str(path))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tiny_tokenizer().encode(TEXT).ids
    assert tokenizer.encode(TEXT, add_special_tokens=False) == ids
    with torch.no_grad():
        said = AutoModelForCausalLM.from_pretrained(folder)(torch.tensor([ids])).logits
        torch.testing.assert_close(said, model(torch.tensor([ids])).logits, rtol=1e-5, atol=1e-5)
    chat = [{"role": "user", "content": "bet or pass"}]
    prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert prompt == "<|im_start|>user\nbet or pass<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.eos_token == "<|im_end|>"
    assert AutoModelForCausalLM.from_pretrained(folder).config.max_position_embeddings == 2048


def test_a_file_is_converted_once_and_found_by_its_content(original, tmp_path):
    path, _ = original
    folder = model_folder(str(path))
    made = (folder / "model.safetensors").stat().st_mtime_ns
    copy = tmp_path / "other name.GGUF"
    copy.write_bytes(path.read_bytes())
    assert model_folder(str(copy)) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made
    (stored,) = stored_models()
    assert (stored.licence, stored.made_from, stored.folder) == ("apache-2.0", str(path), folder)


def test_a_gguf_file_sits_down_at_the_table(original, capsys):
    assert main(["match", f"hf:{original[0]}", "random", "--game", "kuhn_poker", "--matches", "4"]) == 0
    assert "Illegal replies: hf:" in capsys.readouterr().out


def refuse(path):
    with pytest.raises(UsageError) as refusal:
        model_folder(str(path))
    assert entries() == []
    return str(refusal.value)


def test_an_unknown_architecture_is_told_with_those_that_can_be_read(tmp_path):
    write_gguf(tmp_path / "odd.gguf", architecture="mpt")
    message = refuse(tmp_path / "odd.gguf")
    assert "'mpt'" in message
    assert "llama" in message


def test_a_file_without_a_chat_template_is_told(tmp_path):
    write_gguf(tmp_path / "base.gguf", template=None)
    assert "no chat template" in refuse(tmp_path / "base.gguf")


@pytest.mark.parametrize("kept", [0, 3, 100, 3000, -1000])
def test_a_file_that_was_cut_off_is_told(original, tmp_path, kept):
    whole = original[0].read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:kept])
    assert "not a complete GGUF file" in refuse(tmp_path / "cut.gguf")


def test_another_file_by_that_name_is_told(tmp_path):
    (tmp_path / "text.gguf").write_text("This is no model at all, but a text of some length.")
    assert "not a complete GGUF file" in refuse(tmp_path / "text.gguf")
    assert "There is no file" in refuse(tmp_path / "missing.gguf") or "cannot be read" in refuse(tmp_path / "no.gguf")


def test_weights_that_are_missing_are_not_made_up(tmp_path):
    write_gguf(tmp_path / "gap.gguf", leave_out=("blk.1.ffn_up.weight",))
    assert "lacks model.layers.1.mlp.up_proj.weight" in refuse(tmp_path / "gap.gguf")


def test_a_disk_that_is_full_is_told_and_nothing_is_left(original):
    """The system refuses files beyond a size, as a full disk does: no half-made folder stays."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        message = refuse(original[0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be written" in message
    assert "LEAGUE_HOME" in message
    assert model_folder(str(original[0])).is_dir()


@pytest.mark.parametrize("bits", [GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_1], ids=lambda bits: bits.name)
def test_weights_of_few_bits_are_exactly_those_of_the_file(tmp_path, bits):
    """Quantised by the library of the format itself; rounding twice changes nothing, so each bit has to agree."""
    model = write_gguf(tmp_path / "few.gguf", quantised=bits)
    loaded = AutoModelForCausalLM.from_pretrained(model_folder(str(tmp_path / "few.gguf"))).state_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded[name], weight), name
