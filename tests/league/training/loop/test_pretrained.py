"""Runs on a pretrained model: what is wrong with it is told before there is a run; a tiny one trains and plays."""

import json

import pytest
from support.models.gguf import write_gguf

from arena.lm.lora import load_model
from league.cli import main
from league.population.models.source import model_folder

SMALL = [
    "games={kuhn_poker={matches=16}}",
    "iterations=2",
    "snapshot_every=2",
    "threads=1",
    "cold_start.matches=20",
    "evaluation.matches=4",
]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAGUE_HOME", str(tmp_path / "home"))


def train(run, *settings):
    words = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    return main(["train", "smol", "--run-dir", str(run), *words])


def test_a_model_that_was_not_fetched_is_told_with_the_command(tmp_path, capsys):
    assert train(tmp_path / "run") == 2
    assert "league models get smollm2-135m" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_prompt_longer_than_the_context_is_told_before_there_is_a_run(tmp_path, capsys):
    write_gguf(tmp_path / "short.gguf", context=24)
    assert train(tmp_path / "run", f"model.source={tmp_path / 'short.gguf'}") == 2
    error = capsys.readouterr().err
    assert "tokens long" in error
    assert "at most 24" in error
    assert not (tmp_path / "run").exists()


def test_a_reply_that_does_not_fit_behind_its_prompt_is_told(tmp_path, capsys):
    write_gguf(tmp_path / "short.gguf", context=1024)
    free = ("roles.reply=free", "roles.max_reply_tokens=1000")
    assert train(tmp_path / "run", f"model.source={tmp_path / 'short.gguf'}", *free) == 2
    assert "at most 1024. Lower roles.max_reply_tokens" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_gguf_model_is_trained_and_its_snapshots_load_by_themselves(tmp_path, capsys):
    """A run of adapters: its base is in the cache, and each snapshot says where."""
    write_gguf(tmp_path / "tiny.gguf")
    assert train(tmp_path / "run", f"model.source={tmp_path / 'tiny.gguf'}", "policies.main.rank=4") == 0
    snapshot = tmp_path / "run" / "population" / "main-000002"
    base = json.loads((snapshot / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert base == str(model_folder(str(tmp_path / "tiny.gguf")))
    assert load_model(snapshot).context == 2048
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert metrics[0]["main/language_kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics[-1]["main/language_kl"] > 0.0
    assert metrics[-1]["main/language_logprob"] < 0.0
    assert main(["match", str(tmp_path / "run"), f"hf:{snapshot}", "--game", "kuhn_poker", "--matches", "4"]) == 0
