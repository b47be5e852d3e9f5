"""Wrong inputs: each ends with exit code 2 and a sentence; no traceback, nothing lost, nothing left behind."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.source import ROOT

from league.cli import main

SMALL = """
iterations = 1
snapshot_every = 1
threads = 1
games.kuhn_poker.matches = 4
model.hidden_size = 16
model.layers = 1
model.intermediate_size = 16
cold_start.steps = 0
cold_start.matches = 4
evaluation.matches = 0
"""

MATCH = ["match", "random", "random", "--game", "kuhn_poker", "--matches", "2"]
EXPLOIT = ["exploit", "random", "--game", "kuhn_poker", "--steps", "8", "--matches", "2"]
TRAIN = ["train", "small.toml"]
TOURNAMENT = ["tournament", "random", "always:pass", "--game", "kuhn_poker", "--matches", "2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder, the current one, with a file, a folder, a pipe, a broken exploiter and a configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def present(folder):
    return {str(path): None if path.is_dir() or path.is_fifo() else path.read_bytes() for path in folder.rglob("*")}


def refused(folder, capsys, arguments):
    """Run a command that is refused and leaves the folder as it was; return its sentence."""
    before = present(folder)
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert "league: " in captured.err
    assert "Traceback" not in captured.err
    assert present(folder) == before
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([*MATCH, "--save", "file/matches.jsonl"], "file is a file"),
        ([*MATCH, "--save", "full"], "it is a folder"),
        ([*MATCH, "--save", "pipe"], "special file"),
        ([*MATCH, "--save", "/dev/null"], "special file"),
        ([*MATCH, "--save", "/proc/none/matches.jsonl"], "nothing can be written in /proc"),
        ([*MATCH, "--save", ""], "--save '': it needs a name"),
        ([*MATCH, "--save", "n" * 300], "too long"),
        ([*EXPLOIT, "--out", "file/exploiter"], "file is a file"),
        ([*EXPLOIT, "--out", "file"], "it is a file"),
        ([*EXPLOIT, "--out", "pipe"], "it is a file"),
        ([*EXPLOIT, "--out", "/proc/none"], "nothing can be written in /proc"),
        ([*EXPLOIT, "--out", ""], "--out '': it needs a name"),
        ([*EXPLOIT, "--out", "full"], "it already holds something"),
        ([*TRAIN, "--run-dir", "file"], "it is a file"),
        ([*TRAIN, "--run-dir", "file/run"], "file is a file"),
        ([*TRAIN, "--run-dir", "/proc/none"], "nothing can be written in /proc"),
        ([*TRAIN, "--run-dir", ""], "--run-dir '': it needs a name"),
        ([*TRAIN, "--run-dir", "full"], "not empty (it holds thesis.tex)"),
        (["train", "--resume", "--run-dir", ""], "--run-dir '': it needs a name"),
        (["train", "--resume", "--run-dir", "file"], "it is a file"),
        ([*TOURNAMENT, "--run-dir", "file"], "it is a file"),
        ([*TOURNAMENT, "--run-dir", "file/tournament"], "file is a file"),
        ([*TOURNAMENT, "--run-dir", ""], "--run-dir '': it needs a name"),
        ([*TOURNAMENT, "--run-dir", "full"], "not empty (it holds thesis.tex)"),
        (["train", ""], "no preset named ''"),
        (["train", "full"], "no preset named 'full'"),
    ],
)
def test_a_place_that_cannot_be_used_is_told_before_anything_is_done(folder, capsys, arguments, part):
    assert part in refused(folder, capsys, arguments)


@pytest.mark.parametrize("arguments", [["--run-dir", "file"], ["--run-dir", "file/run"], ["--run-dir", ""]])
def test_an_evolved_run_has_a_place_before_it_is_made(folder, capsys, run_dir, arguments):
    assert "--run-dir" in refused(folder, capsys, ["evolve", run_dir, *arguments])


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([*MATCH, "--seed", "-1"], "--seed -1: it should be a whole number from 0"),
        ([*MATCH, "--seed", "9" * 30], "--seed 9999"),
        ([*MATCH[:-1], "9" * 20], "--matches 9999"),
        ([*MATCH[:-1], "1000000000"], "1,000,000 matches"),
        (["play", "--game", "kuhn_poker", "--against", "random", "--seed", "-1"], "--seed -1"),
        ([*TOURNAMENT, "--seed", "-1"], "--seed -1"),
        ([*EXPLOIT, "--seed", "-1"], "--seed -1"),
        (["exploit", "random", "--game", "kuhn_poker", "--steps", "0"], "--steps 0"),
        (["exploit", "random", "--game", "kuhn_poker", "--steps", "1e3"], "--steps '1e3'"),
        (["board", "absent", "--port", "99999"], "--port 99999: it should be a whole number from 0 to 65,535"),
        (["board", "absent", "--port", "-1"], "--port -1"),
        (["match", "mcts:" + "9" * 20, "random", "--game", "tic_tac_toe", "--matches", "2"], "mcts:9999"),
        (["match", "random", "r" * 5000, "--game", "kuhn_poker"], "too long"),
        (["match", "random", "hf:file", "--game", "kuhn_poker"], "file is a file"),
        (["match", "random", "hf:empty", "--game", "kuhn_poker"], "no config.json"),
        (["match", "random", "hf:", "--game", "kuhn_poker"], "a .gguf file or a hub id"),
        (["match", "random", "hf:no such thing", "--game", "kuhn_poker"], "no folder no such thing"),
        (["match", "random", "best_response:full", "--game", "kuhn_poker"], "no exploiter"),
        (["exploitability", "random", "--game", "chess"], "chess is too large"),
        (["exploitability", "random", "--game", "connect_four"], "connect_four is too large"),
        (["exploitability", "random", "--game", "gin_rummy"], "gin_rummy is too large"),
        (["match", "random", "random", "--game", "goofspiel(num_cards=0)"], "fails with num_cards = 0"),
        (["match", "random", "random", "--game", "nim(pile_sizes=9999999;9999999)"], "fails with pile_sizes"),
        (["match", "random", "random", "--game", "universal_poker(numRounds=100)"], "fails with numRounds = 100"),
        (["match", "random", "random", "--game", "universal_poker(numPlayers=1000000)"], "fails with numPlayers"),
        (["match", "random", "random", "--game", "goofspiel(num_cards=-1)"], "fails with num_cards = -1"),
        (["match", "random", "random", "--game", "goofspiel(num_cards=99999999999)"], "num_cards"),
        (["match", "random", "random", "--game", "connect_four(rows=0)"], "fails with rows = 0"),
        (["match", "random", "random", "--game", "hanabi(players=2,colors=0)"], "fails with colors = 0"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(folder, capsys, arguments, part):
    assert part in refused(folder, capsys, arguments)


ABSENT = ["runs/absent", "--game", "kuhn_poker"]  # a player that is looked for after the options


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["exploit", *ABSENT, "--seat", "9"], "--seat 9: kuhn_poker has the seats 0 to 1"),
        (["exploit", *ABSENT, "--control", "2"], "--control 2: give a share"),
        (["exploit", *ABSENT, "--distance", "nan"], "--distance nan: give a share"),
        (["exploit", *ABSENT, "--reference", "random"], "only a budget needs a reference"),
        (["match", "random", *ABSENT, "--until", "nan"], "--until nan: the confidence should be at least 0.5"),
        (["match", "random", *ABSENT, "--until", "0.9", "--margin", "nan"], "--margin nan"),
        (
            ["match", "random", *ABSENT, "--threads", "100000"],
            "--threads 100000: it should be a whole number",
        ),
        (["eval", "runs/absent", "--suite", "spiral", "--until", "nan"], "--until nan"),
        (
            ["sweep", "small.toml", "--ask", "standing RUN"],
            "There is no command named 'standing'",
        ),
        (["sweep", "small.toml", "--ask", "exploitability RUN --gmae x"], "Did you mean --game or"),
        (["sweep", "small.toml", "--ask", "exploitability RUN"], "--game"),
        (["sweep", "small.toml", "--ask", "replay RUN"], "only commands with --json have them"),
    ],
)
def test_a_wrong_option_is_found_before_any_work(folder, capsys, arguments, part):
    assert part in refused(folder, capsys, arguments)


def test_an_engine_that_is_not_installed_is_found_before_any_work(folder, capsys, monkeypatch):
    monkeypatch.setattr("league.population.players.machine.find_spec", lambda _: None)
    message = refused(folder, capsys, ["match", "random", *ABSENT, "--engine", "vllm"])
    assert "--engine 'vllm', but vLLM is not installed" in message


def test_ctrl_c_before_a_command_has_begun_is_no_traceback(folder):
    """Python is still importing, as in the first tenths of a second."""
    code = "import sys; from league.cli import main\n"
    code += "class Stop:\n    def find_spec(self, name, *_):\n"
    code += "        if name == 'league.cli.dispatch': raise KeyboardInterrupt\n"
    code += "sys.meta_path.insert(0, Stop()); sys.exit(main(['games']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nStopped.\n")


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("optimizer.learning_rate=inf", "optimizer.learning_rate = inf"),
        ("optimizer.learning_rate=nan", "optimizer.learning_rate = nan"),
        ("optimizer.learning_rate=1e300", "optimizer.learning_rate = 1e+300"),
        ("objective.entropy=inf", "objective.entropy = inf"),
        ("iterations=99999999999999999999999", "iterations = 99999999999999999999999"),
        ("iterations=0", "iterations = 0"),
        ("in_flight=-1", "in_flight = -1"),
        ("seed=-1", "seed = -1"),
        ("threads=100000000", "threads = 100000000"),
        ("model.hidden_size=1000000000", "model.hidden_size = 1000000000"),
        ("model.device=cpuu", "'cpuu' is not a device"),
        ("model.device=meta", "'meta' is not a device"),
        ("model.device=", "is not a device"),
        ("model.device=cuda:99", "PyTorch finds no GPU here"),
        ("model.source=file", "file is a file"),
        ("model.source=empty", "no config.json"),
        ("model.source=./absent", "there is no folder absent"),
        ('evaluation.anchors=["randim"]', "Did you mean random?"),
        ('evaluation.anchors=["always:fold"]', "always:fold"),
        ('matchmaking.guests=["scripted:best"]', "scripted:best cannot play kuhn_poker"),
        ("engine.kind=vlm", "no engine named 'vlm'"),
        ("optimizer.processes=4000", "optimizer.processes asks for 4,000 processes"),
        ("roles.cards=file", "folder of role cards file does not exist"),
        ("matchmaking.tree=1000000", "more than 1,000,000,000 matches"),
        ("policies.main={weights='lora',targets=['nothing']}", "policies.main.targets"),
    ],
)
def test_a_setting_that_cannot_train_is_refused_and_leaves_no_folder(folder, capsys, setting, part):
    assert part in refused(folder, capsys, [*TRAIN, "--run-dir", "new", "--set", setting])


def test_a_snapshot_has_a_name(folder, capsys, run_dir):
    message = refused(folder, capsys, ["match", f"{run_dir}@", "random", "--game", "kuhn_poker"])
    assert f"{run_dir}@mixture" in message


def test_the_slow_start_does_not_come_before_the_refusal(folder):
    """What the machine lacks is told without torch, which takes seconds to import."""
    settings = ["model.device=cuda", "engine.kind=vllm", 'evaluation.anchors=["randim"]', "model.source=./absent"]
    code = "import sys; from league.cli import main\n"
    code += f"for setting in {settings}: assert main(['train', 'small.toml', '--set', setting]) == 2\n"
    code += "sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    if "finds no GPU" in done.stderr and "not installed" in done.stderr:  # this machine has neither
        assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "runs").exists()


def test_a_hub_that_does_not_answer_is_asked_once(folder):
    """An address where nothing listens; the libraries would try again for a minute."""
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(folder / "hub"), "no_proxy": "*"}
    code = "import sys, time; from league.cli import main; time.sleep = None\n"
    code += "sys.exit(main(['match', 'hf:no/such', 'random', '--game', 'kuhn_poker']) * ('torch' not in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "hf:no/such: there is no such folder, and the hub http://127.0.0.1:9 cannot be reached" in done.stderr


@pytest.mark.parametrize(
    ("command", "status", "part"),
    [
        ("games > /dev/full", 2, "No space left"),
        ("--help > /dev/full", 2, "No space left"),
        ("match random random --game kuhn_poker --matches 2 --json > /dev/full", 2, "No space left"),
        ("play --game kuhn_poker --against random <&-", 2, "Standard input is closed"),
        ("play --game kuhn_poker --against random < /dev/null", 130, "left the match"),
        ("games >&-", 0, ""),
        ("nonsense 2>&-", 2, ""),
    ],
)
def test_streams_that_are_full_or_closed(folder, command, status, part):
    if "/dev/full" in command and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        f"{sys.executable} -m league {command}",
        shell=True,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
    assert part in done.stderr


def test_a_report_is_printed_before_its_file_is_written(folder, capsys, monkeypatch):
    """A disk that fills up while matches are played takes the file, not the result."""
    monkeypatch.setattr("league.cli.playing.match.file_to_write", lambda text, _: folder / "full")
    assert main([*MATCH, "--save", "anything", "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["matches"] == 2
    assert captured.err.lstrip("\n").startswith("league: ")


def test_a_reader_that_closes_early_does_not_lose_the_file(folder):
    """As ``league match … --save F | head -1`` does."""
    words = f"{sys.executable} -m league match random random --game kuhn_poker --matches 2 --save {folder / 'kept'}"
    done = subprocess.run(f"{words} | true", shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert len((folder / "kept").read_text().splitlines()) == 3  # a heading, and a match each


def test_names_reach_the_terminal_as_they_are_written(folder, capsys, run_dir):
    name = "[bold]run[/bold] \x1b[31mred\x1b]0;title\x07 :smile:"
    shutil.copytree(run_dir, folder / name)
    for command in (["standings", name], ["match", name, "random", "--game", "kuhn_poker", "--matches", "2"]):
        assert main(command) == 0
        out = capsys.readouterr().out
        assert r"[bold]run[/bold] \x1b[31mred\x1b]0;title\x07 :smile:" in out
        assert not {"\x1b", "\x07"} & set(out)
    assert main(["match", f"{name}@none", "random", "--game", "kuhn_poker"]) == 2
    assert "\x1b" not in capsys.readouterr().err
