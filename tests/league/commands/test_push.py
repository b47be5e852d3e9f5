"""A snapshot as a model of the hub: the folder, its card, and prompts that are the same from the folder alone."""

import json

import pytest
from support.models.pocket import small_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from arena.lm.tokenization import ChatTokenizer
from league.cli import main
from roles.prompts import PLAIN_TEMPLATE, Message

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


def test_the_snapshot_in_the_run_stays_as_it_was(run_dir, tmp_path):
    from league.storage.population import Population

    assert main(["push", str(run_dir), "me/kuhn", "--dry-run", "--out", str(tmp_path / "model")]) == 0
    population = Population(run_dir / "population")
    population.verify(population.get("main-000010"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["me", "--dry-run"], "'me' is no name of the hub's. Write ORG/NAME"),
        (["me/kuhn", "--dry-run", "--out", "."], "there is something in it"),
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
