"""Runs in which a program takes turns: the page's own, killed ten times, trains the run without it, bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from support.pages import blocks, page_of
from support.processes.runs import TINY, TrainingProcess, contents
from support.processes.unbroken import each_once

import league
from games.common.errors import UsageError
from league.cli import main
from league.cli.python.runs import open_run

FIRST = 'programs = { roles = ["kuhn_poker/first"], port = 0 }\n'
FREE = 'roles = { reply = "free", on_illegal = "forfeit", max_reply_tokens = 6 }\nalarms.stop = []\n'
TOLD = {"programs/played", "programs/forfeited", "programs/refused"}


@pytest.fixture(scope="module")
def unbroken_runs(tmp_path_factory):
    return each_once({"choice": "", "free": FREE}, tmp_path_factory)


@pytest.fixture
def agent(tmp_path):
    """Return the path of the program that the page shows; it is of 30 lines at most."""
    [text] = [text for _, language, text in blocks(page_of("serving")) if "/seats/next" in text]
    assert len(text.splitlines()) <= 30
    (tmp_path / "agent.py").write_text(text)
    return tmp_path / "agent.py"


def assert_same(run_dir, other):
    """Assert that two runs have the same matches, weights and state, bit for bit, and metrics to rounding.

    Exact tables of snapshots are read in whatever batches they come in, so their last bits may differ.
    """
    one, two = contents(run_dir), contents(other)
    for own, their in zip(one.pop("metrics.jsonl"), two.pop("metrics.jsonl"), strict=True):
        assert {name: own[name] for name in own.keys() - TOLD} == pytest.approx(their, abs=1e-6)
    for files in (one, two):
        for name in [name for name in files if name == "config.toml" or "/tables/" in name]:
            files.pop(name)
    assert one == two


def listening(run_dir):
    """Return where a run listens, once it does."""
    until = time.monotonic() + 60
    while not (run_dir / "programs.json").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    return json.loads((run_dir / "programs.json").read_text())["url"]


def start(agent, url, name="one"):
    return subprocess.Popen([sys.executable, agent, url, name], stdout=subprocess.PIPE, text=True)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["choice", "free"])
def test_the_pages_program_killed_ten_times_trains_the_run_without_it(form, unbroken_runs, agent, tmp_path):
    unbroken, config, rng = unbroken_runs(form), tmp_path / "config.toml", random.Random(form)
    config.write_text(TINY + FIRST + {"choice": "", "free": FREE}[form])
    training = TrainingProcess(config, run_dir=tmp_path / "run")
    url, killed = listening(tmp_path / "run"), 0
    while killed < 10:
        program = start(agent, url)
        time.sleep(rng.uniform(0.7, 1.2))  # most of which Python takes to start
        killed += program.poll() is None
        program.kill()
        program.communicate()
    program = start(agent, url)
    ended = training.end(120)
    program.communicate(timeout=60)
    assert ended.status == 0, ended.output
    assert_same(tmp_path / "run", unbroken.run)
    run = open_run(tmp_path / "run")
    assert sum(line.get("programs/forfeited", 0) for line in run.iterations()) == 0
    indices = [episode.request.index for episode in run.episodes()]
    assert len(indices) == len(set(indices))


@pytest.mark.thorough
def test_a_run_that_listens_is_killed_resumed_elsewhere_and_the_same(unbroken_runs, agent, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(TINY + FIRST)
    training = TrainingProcess(config, run_dir=tmp_path / "run")
    program = start(agent, listening(tmp_path / "run"))
    assert training.end(3.0).status in (0, -signal.SIGKILL)
    program.kill()
    (tmp_path / "run" / "programs.json").unlink()
    training = TrainingProcess("--resume", run_dir=tmp_path / "run")
    program = start(agent, listening(tmp_path / "run"))
    assert training.end(120).status == 0
    program.kill()
    assert_same(tmp_path / "run", unbroken_runs("choice").run)


@pytest.mark.thorough
def test_who_waits_for_programs_says_so_when_it_is_stopped_and_stops_at_once_the_second_time(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(TINY + FIRST)
    training, log = TrainingProcess(config, run_dir=tmp_path / "run"), tmp_path / "run.log"
    url, until = listening(tmp_path / "run"), time.monotonic() + 60
    while url not in log.read_text():
        time.sleep(0.05)
    os.kill(training.pid, signal.SIGINT)
    while "Ctrl-C again stops at once" not in log.read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "for which programs still have to play kuhn_poker/first" in log.read_text()
    assert training.alive()
    os.kill(training.pid, signal.SIGINT)
    ended = training.end(60)
    assert ended.status == 130, ended.output
    assert "Stopped at once; the iteration in progress is lost." in ended.output


def test_a_function_that_plays_the_first_answer_trains_the_run_without_it(unbroken_runs, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(TINY + FIRST)
    run = league.train(
        league.load_config(config), tmp_path / "run", program=lambda seat: seat.complete(), watch=lambda n, _: n >= 2
    )
    theirs = open_run(unbroken_runs("choice").run)
    for own, their in zip(run.iterations(), theirs.iterations(), strict=False):
        assert own["main/loss"] == their["main/loss"] if "main/loss" in own else own["iteration"] == 0


@pytest.mark.thorough
def test_the_pages_function_trains(tmp_path, monkeypatch, capsys):
    [text] = [text for _, _, text in blocks(page_of("serving")) if "def careful" in text]
    monkeypatch.chdir(tmp_path)
    exec(compile(text, "serving.md", "exec"), {})  # ours: it stands in this repository
    assert capsys.readouterr().out.splitlines()[-1] == "2"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pocket"], "name one with --role, such as --role kuhn_poker/first"),
        (["pocket", "--role", "kuhn_poker/third"], "kuhn_poker/third"),
        (["pocket", "--role", "chess_of_none/first"], "chess_of_none"),
        (["pocket", "--role", "kuhn_poker/first", "--port", "70000"], "port"),
        (["nothing_of_that_name", "--role", "kuhn_poker/first"], "nothing_of_that_name"),
    ],
)
def test_wrong_inputs_are_refused_in_a_sentence(words, told, tmp_path, capsys):
    assert main(["serve-seats", *words, "--run-dir", str(tmp_path / "run")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_without_programs_is_not_served(unbroken_runs, tmp_path, capsys):
    assert main(["serve-seats", str(unbroken_runs("choice").run)]) == 2
    assert "is a run without programs" in capsys.readouterr().err


def test_a_program_without_a_role_and_a_cluster_are_refused(tmp_path):
    config = league.load_config("pocket-returns", "iterations=1")
    with pytest.raises(UsageError, match=r"programs\.roles names no role"):
        league.train(config, tmp_path / "run", program=lambda seat: seat.complete())
    served = league.load_config("pocket-returns", 'programs.roles=["kuhn_poker/first"]')
    with pytest.raises(UsageError, match="cluster"):
        league.train(served, tmp_path / "run", cluster="local")
