"""A snapshot as a model of the hub: the folder, its card, and prompts that are the same from the folder alone."""

import errno
import json

import pytest
import torch
from support.models.adapters import scrambled
from support.models.pocket import pocket, small_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from arena.lm.tokenization import ChatTokenizer
from league.cli import main
from league.cli.training import push
from roles.chat_text import PLAIN_TEMPLATE, Message

CHATS: list[list[Message]] = [
    [{"role": "system", "content": "You play."}, {"role": "user", "content": "Your card: J"}],
    [{"role": "user", "content": ">bet\n>pass\n\n> a\n >b>\n>"}, {"role": "assistant", "content": ">>\n>x"}],
    [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "\n>"},
        {"role": "user", "content": "  \n\t>é{{ 1 }}"},
    ],
]


@pytest.mark.parametrize("chat", CHATS)
def test_the_chat_template_makes_the_prompts_that_the_league_makes(chat):
    plain = ChatTokenizer(small_tokenizer(), None, "plain")
    expected = plain.encode_prompt(chat)
    try:
        small_tokenizer().chat_template = PLAIN_TEMPLATE
        assert plain.encode_prompt(chat) == expected
    finally:
        small_tokenizer().chat_template = None


def test_a_dry_run_shows_every_file_and_the_folder_is_a_model(run_dir, tmp_path, capsys):
    out = tmp_path / "model"
    assert main(["push", f"{run_dir}@main-000010", "me/kuhn", "--dry-run", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert [line.split()[1] for line in text.splitlines()[:-1]] == sorted(path.name for path in out.iterdir())
    assert "Nothing was sent: without --dry-run this would be https://huggingface.co/me/kuhn" in text
    card = (out / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "| `kuhn_poker/exploitability` | 0.4 |" in card
    assert "the snapshot `main-000010`, after 10 iterations, of a run on kuhn_poker." in card
    assert "As `kuhn_poker/first`, which may answer pass, bet:" in card
    assert "user: Your card: " in card
    assert not (out / "snapshot.json").exists()

    model, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert tokenizer.model_max_length == model.config.max_position_embeddings == 1024
    before = ChatTokenizer.read(run_dir / "population" / "main-000010")
    for chat in CHATS:
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        assert tuple(ids) == before.encode_prompt(chat)
    assert main(["match", f"hf:{out}", "random", "--game", "kuhn_poker", "--matches", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["matches"] == 4


@pytest.fixture(scope="module")
def adapted_run(tmp_path_factory):
    """Return a run whose policy is an adapter on a base of its own, and what the adapter says after a prompt."""
    from arena.lm.language_model import LanguageModel
    from arena.lm.lora import Adapters, AdapterShape
    from league.config import RunConfig
    from league.config.load import write_run_config
    from league.population.models.base_model import base_source, save_base
    from league.population.storage.population import Population

    path = tmp_path_factory.mktemp("runs") / "adapted"
    path.mkdir()
    config = RunConfig(games={"kuhn_poker": {}}, policies={"main": {"weights": "lora", "rank": 4}})
    write_run_config(path, config)
    save_base(config, path, "main", pocket(hidden_size=16, layers=1, intermediate_size=16))
    adapters = Adapters(LanguageModel.load(path / "base"), base_source(config, "main"))
    view = scrambled(adapters.add(AdapterShape(rank=4, alpha=8.0), 0), 3)
    Population(path / "population").add("main", 10, None, view.save)
    ids = torch.tensor([view.encode_prompt(CHATS[0])])
    with torch.inference_mode():
        return path, ids, view.forward(input_ids=ids).logits, adapters.base.forward(input_ids=ids).logits


def test_an_adapter_whose_base_nobody_else_has_is_merged_into_it(adapted_run, tmp_path, capsys):
    path, ids, expected, of_base = adapted_run
    assert main(["push", str(path), "me/kuhn", "--dry-run", "--out", str(tmp_path / "model")]) == 0
    capsys.readouterr()
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    with torch.inference_mode():
        logits = model(input_ids=ids).logits
    assert torch.allclose(logits, expected, atol=1e-4)
    assert not torch.allclose(logits, of_base, atol=1e-2)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "which is merged here into its base: a small model that was built for the run." in card
    assert "base_model" not in card
    assert AutoTokenizer.from_pretrained(tmp_path / "model").chat_template == PLAIN_TEMPLATE


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("pocket", None),
        ("Qwen/Qwen3-0.6B", ("Qwen/Qwen3-0.6B", True)),
        ("/models/mine", ("mine", False)),
        (
            "smollm2-135m",
            ("smollm2-135m (SmolLM2-135M-Instruct of Hugging Face, a Llama", False),
        ),
    ],
)
def test_a_card_names_the_base_and_no_path_of_this_machine(source, expected):
    base = push._base(source)
    assert base is None if expected is None else base.name.startswith(expected[0])
    assert base is None or base.on_hub == expected[1]


def test_the_snapshot_in_the_run_stays_as_it_was(run_dir, tmp_path):
    from league.population.storage.population import Population

    assert main(["push", str(run_dir), "me/kuhn", "--dry-run", "--out", str(tmp_path / "model")]) == 0
    population = Population(run_dir / "population")
    population.verify(population.get("main-000010"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["me", "--dry-run"], "'me' is not a name on the hub. Write ORG/NAME"),
        (["me/kuhn", "--dry-run", "--out", "."], "it is not empty"),
    ],
)
def test_what_cannot_be_pushed_is_refused(run_dir, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["push", str(run_dir), *words]) == 2
    assert message in capsys.readouterr().err


def test_it_is_sent_as_the_hub_takes_it(run_dir, monkeypatch, capsys):
    calls = []

    class Hub:
        endpoint = "https://hub"

        def create_repo(self, name, **given):
            calls.append((name, given))

        def upload_folder(self, repo_id, folder_path, commit_message):
            calls.append((repo_id, sorted(path.name for path in folder_path.iterdir())))

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    assert main(["push", str(run_dir), "me/kuhn"]) == 0
    assert calls[0] == ("me/kuhn", {"private": True, "exist_ok": True})
    assert {"README.md", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= set(calls[1][1])
    assert capsys.readouterr().out.endswith("https://hub/me/kuhn\n")


def test_a_hub_that_cannot_be_reached_is_a_sentence(run_dir, monkeypatch, capsys):
    """The hub's client raises what the library raises that it asks with, which is no OSError."""

    class Hub:
        endpoint = "http://127.0.0.1:9"

        def create_repo(self, name, **given):
            raise RuntimeError("ConnectError")

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    assert main(["push", str(run_dir), "me/kuhn"]) == 2
    assert "The hub http://127.0.0.1:9 cannot be reached ([Errno 111] Connection refused)" in capsys.readouterr().err
    monkeypatch.setattr("league.population.players.hub.why_not_reached", lambda _: "")
    with pytest.raises(RuntimeError, match="ConnectError"):  # which is a bug: it answers
        main(["push", str(run_dir), "me/kuhn"])


def test_a_disk_that_fills_up_is_a_sentence(run_dir, tmp_path, monkeypatch, capsys):
    def copy(source, target):
        raise OSError(errno.ENOSPC, "No space left on device", target)

    monkeypatch.setattr("shutil.copy2", copy)
    monkeypatch.setattr("shutil.copytree.__defaults__", (False, None, copy, False, False))
    assert main(["push", str(run_dir), "me/kuhn", "--dry-run", "--out", str(tmp_path / "model")]) == 2
    assert "cannot be written: [Errno 28] No space left on device" in capsys.readouterr().err
