"""Files of a run that a stranger has made to harm: each is told in a sentence with exit code 2, soon, and in memory."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from games.common.errors import DamagedFile, UsageError
from games.common.files import read_file, read_json, read_toml
from games.common.sealed_json import read_sealed
from league.cli import main
from league.population.models.source import model_folder
from league.population.storage.immutable_folder import changed_files, sha256

DEEP = "[" * 100_000 + "]" * 100_000  # more than Python's stack has frames
MATCH = ["random", "--game", "kuhn_poker", "--matches", "2"]
NEWEST = "population/main-000010"


def sealed(content):
    return f'{{"sha256": "{hashlib.sha256(content.encode()).hexdigest()}", "data": {content}}}'


@pytest.fixture
def run(run_dir, tmp_path):
    return Path(shutil.copytree(run_dir, tmp_path / "run"))


def refused(capsys, *words):
    assert main([str(word) for word in words]) == 2, words
    told = capsys.readouterr().err
    assert "league: " in told
    assert "Traceback" not in told
    return told


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.toml", f"iterations = {DEEP}\n", ("match", "{}", *MATCH)),
        ("config.toml", f"iterations = {DEEP}\n", ("train", "{}/config.toml", "--run-dir", "{}-new")),
        (f"{NEWEST}/snapshot.json", DEEP, ("match", "{}", *MATCH)),
        ("ratings.json", sealed(DEEP), ("standings", "{}")),
        ("ratings.json", DEEP, ("standings", "{}")),
        ("metrics.jsonl", f"{DEEP}\n", ("report", "{}", "-o", "{}.html")),
    ],
)
def test_brackets_without_end_are_told(run, capsys, name, content, words):
    path = run / name
    path.unlink(missing_ok=True)
    path.write_text(content)
    assert path.name in refused(capsys, *(word.format(run) for word in words))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tournament.json", ("tournament", "--resume", "--run-dir", "{}")),
        ("sweep.json", ("sweep", "--resume", "--run-dir", "{}")),
        ("exploiter.json", ("match", "best_response:{}", *MATCH)),
    ],
)
def test_brackets_without_end_are_told_of_other_folders(tmp_path, capsys, name, words):
    (tmp_path / name).write_text(DEEP)
    assert "nested too deeply" in refused(capsys, *(word.format(tmp_path) for word in words))


def test_a_value_of_brackets_without_end_is_told(tmp_path, capsys):
    assert "iterations" in refused(
        capsys, "train", "pocket", "--set", f"iterations={DEEP}", "--run-dir", tmp_path / "x"
    )
    (tmp_path / "digits.toml").write_text(f"iterations = {'9' * 5000}\n")
    assert "not valid TOML" in refused(capsys, "train", tmp_path / "digits.toml", "--run-dir", tmp_path / "x")


@pytest.mark.parametrize(
    "facts",
    [
        {"sha256": ["model.safetensors"]},
        {"sha256": {"model.safetensors": 5}},
        {"step": "10"},
        {"step": 10**400},
        {"step": True},
        {"policy": 5},
        {"policy": "../../main"},
        {"parent": ["main-000000"]},
        {"parents": [5]},
        {"how": {"a": 1}},
    ],
)
def test_a_card_of_other_facts_is_told(run, capsys, facts):
    path = run / NEWEST / "snapshot.json"
    card = json.loads(path.read_text()) | facts
    path.unlink()
    path.write_text(json.dumps(card))
    assert "snapshot.json cannot be read" in refused(capsys, "match", run, *MATCH)


def test_a_pipe_is_no_gguf_file(tmp_path, capsys):
    os.mkfifo(tmp_path / "model.gguf")
    assert "is no file" in refused(capsys, "match", f"hf:{tmp_path / 'model.gguf'}", *MATCH)


def put(path, kind):
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)  # a sparse file: it takes no room on the disk, and has none in memory


@pytest.mark.parametrize("kind", ["pipe", "device", "sparse"])
@pytest.mark.parametrize("read", [read_file, read_json, read_toml, lambda path: read_sealed(path, "")])
def test_what_has_no_end_is_not_read(tmp_path, kind, read):
    put(tmp_path / "file", kind)
    with pytest.raises((OSError, DamagedFile), match="too large to be read" if kind == "sparse" else "pipe or a dev"):
        read(tmp_path / "file")


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "snapshot.json"])
def test_a_snapshot_of_pipes_is_told(run, capsys, kind, name):
    put(run / NEWEST / name, kind)
    assert name in refused(capsys, "match", run, *MATCH)
    with pytest.raises(UsageError, match=rf"{name} is a pipe, a device or a link to nothing"):
        model_folder(str(run / NEWEST))


@pytest.mark.parametrize("kind", ["pipe", "device", "sparse"])
@pytest.mark.parametrize(("name", "command"), [("metrics.jsonl", "report"), ("ratings.json", "standings")])
def test_logs_without_end_are_told(run, capsys, kind, name, command):
    put(run / name, kind)
    told = refused(capsys, command, run, *(["-o", f"{run}.html"] if command == "report" else []))
    assert name in told


def test_a_changed_file_is_one_that_is_no_file_too(tmp_path):
    (tmp_path / "card").touch()
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    hashes = {name: sha256(tmp_path / name) for name in ("a", "b")}
    assert changed_files(tmp_path, "card", hashes) == []
    put(tmp_path / "b", "device")
    assert changed_files(tmp_path, "card", hashes) == ["b"]
