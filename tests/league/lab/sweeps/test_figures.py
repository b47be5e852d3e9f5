"""What a sweep's runs took and answered: kept over kills, asked once, read at equal tokens, and asked from Python."""

import json
import os

import numpy as np
import pytest
from support.processes.runs import TINY
from support.processes.swept import last_lines

import league
from games.common.errors import UsageError
from league.cli import main
from league.lab.reports.run_record import RunRecord, Series
from league.lab.sweeps import record
from league.lab.sweeps.record import Cost, Meter, Swept, figures_of, read_record, write_record
from league.lab.sweeps.table import at_tokens
from league.training.loop import session

SMALLER = ("iterations=4", "snapshot_every=1", "games.kuhn_poker.matches=16", "cold_start.steps=2")
ASK = "exploitability RUN --game kuhn_poker"


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return str(path)


def test_costs_are_sums_over_sessions_and_the_largest_memory():
    sessions = (Cost(10.0, 8.0, 9.0, 0.5), Cost(5.0, 4.0, 4.5, 0.75))
    assert Swept(sessions, {}).cost == Cost(15.0, 12.0, 13.5, 0.75)
    assert Swept((sessions[0], Cost(1.0, 1.0, 1.0, None)), {}).cost == Cost(11.0, 9.0, 10.0, None)
    assert Swept((), {}).cost is None
    figures = figures_of(Swept((), {"q": {"a": 1, "sure": True, "name": "x", "parts": [1.0], "none": None}}))
    assert figures == {"q: a": 1.0}


def test_a_session_that_is_killed_is_known_up_to_its_last_moments(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "SAVED_EVERY", 0.0)
    write_record(tmp_path / "run", Swept((Cost(10.0, 8.0, 9.0, 0.5),), {"q": {"a": 1}}))
    meter = Meter(tmp_path / "run", own_process=True)
    with meter.training():
        meter.tick()
        known = read_record(tmp_path / "run")  # as after a kill now
    assert known.answers == {"q": {"a": 1}}
    assert known.sessions[0] == Cost(10.0, 8.0, 9.0, 0.5)
    assert 0.0 <= known.sessions[1].training_seconds <= known.sessions[1].seconds < 600.0
    assert len(read_record(tmp_path / "run").sessions) == 2  # this one was written once more, not twice


def test_a_run_is_read_at_its_tokens_between_two_measurements():
    """0.2 untrained, 0.4 after 300 tokens and 0.8 after 500: at 400 tokens 0.6. What ends before is not known there."""
    metrics = {
        "reply_tokens": Series((1, 2, 3, 4), (100.0, 200.0, 100.0, 100.0)),
        "held_out": Series((0, 2, 4), (0.2, 0.4, 0.8)),
        "early": Series((0, 2), (0.2, 0.4)),
        "late": Series((4,), (0.4,)),
    }
    run = RunRecord(
        **dict.fromkeys(("name", "path", "config", "snapshots", "specs", "roles", "standings", "tables", "mixtures")),
        done=4,
        metrics=metrics,
    )
    found = at_tokens(run, 400)
    assert found.done == 400
    assert found.metrics["held_out"] == Series((400,), (pytest.approx(0.6),))
    assert {"early", "late"}.isdisjoint(found.metrics)


@pytest.mark.thorough
def test_tokens_end_runs_and_their_table_is_at_these(tiny, tmp_path, capsys):
    folder = tmp_path / "sweep"
    words = [word for setting in SMALLER for word in ("--set", setting)]
    words = ["sweep", tiny, "--seeds", "0", "--run-dir", str(folder), *words]
    words += ["--condition", "one", "--condition", "more matches", "games.kuhn_poker.matches=32"]
    assert main([*words, "--tokens", "100"]) == 0
    assert "At 100 generated tokens" in capsys.readouterr().out
    table = json.loads((folder / "table.json").read_text())
    assert [condition["name"] for condition in table["conditions"]] == ["one", "more matches"]
    done = {}
    for letter, name in zip("AB", ("one_seed-0", "more-matches_seed-0"), strict=True):
        lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
        generated = np.cumsum([line.get("reply_tokens", 0.0) for line in lines])
        assert generated[-1] >= 100 > generated[-2]  # a snapshot each iteration, so it ended at once
        done[name] = len(lines) - 1
        curve = [line["kuhn_poker/exploitability"] for line in lines]
        figure = table["figures"]["kuhn_poker/exploitability"]["means"][letter]["mean"]
        assert figure == pytest.approx(np.interp(100, generated, curve))
    assert done["more-matches_seed-0"] < done["one_seed-0"] <= 4
    more = ["sweep", tiny, "--seeds", "0", "--resume", "--run-dir", str(folder), "--condition", "one", "iterations=5"]
    assert main(more) == 2
    assert "was planned with other settings" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_command_is_asked_about_a_run_and_one_that_fails_is_told(tiny, tmp_path, capsys):
    words = [word for setting in (*SMALLER, "iterations=1") for word in ("--set", setting)]
    folder = tmp_path / "sweep"
    assert main(["sweep", tiny, "--seeds", "0", "--run-dir", str(folder), *words, "--ask", ASK]) == 0
    answer = read_record(folder / "tiny_seed-0").answers[ASK]["exploitability"]
    last = json.loads((folder / "tiny_seed-0" / "metrics.jsonl").read_text().splitlines()[-1])
    assert answer == pytest.approx(last["kuhn_poker/exploitability"], abs=1e-6)
    table = json.loads((folder / "table.json").read_text())
    assert table["figures"][f"{ASK}: exploitability"]["means"]["A"]["mean"] == answer
    ask = ["sweep", "--resume", "--run-dir", str(folder), "--ask"]
    assert main([*ask, "exploitability RUN --game kuhn_poke"]) == 2, "no run is needed to know that there is no such game"
    wrong = "exploitability RUN@main-000099 --game kuhn_poker"
    capsys.readouterr()
    assert main([*ask, wrong]) == 1
    told = capsys.readouterr().out
    assert f"league {wrong} failed: " in told
    assert f"{ASK}: exploitability" in told


def test_too_few_iterations_for_the_tokens_are_told(tiny, tmp_path, capsys):
    words = [word for setting in (*SMALLER, "iterations=1") for word in ("--set", setting)]
    folder = str(tmp_path / "sweep")
    assert main(["sweep", tiny, "--seeds", "0", "--run-dir", folder, *words, "--tokens", "100000"]) == 1
    assert "it should end at 100,000. Start a sweep with more iterations" in capsys.readouterr().out


@pytest.mark.thorough
def test_from_python_a_sweep_goes_on_with_more_seeds_and_asks_once(tiny, tmp_path, monkeypatch):
    few = (*SMALLER, "iterations=1")
    configs = {rule: league.load_config(tiny, *few, f"credit.rule={rule}") for rule in ("rae", "mars")}
    trained, asked, train = [], [], session.train

    def noted(config, path, **how):
        trained.append(path.name)
        return train(config, path, **how)

    def ask(run_dir):
        asked.append(run_dir.name)
        return last_lines(run_dir)

    monkeypatch.setattr(session, "train", noted)
    first = league.sweep(configs, tmp_path / "sweep", seeds=[0], questions={"lines": ask})
    again = league.sweep(configs, tmp_path / "sweep", seeds=[1, 0], questions={"lines": ask})
    assert trained == asked == ["rae_seed-0", "mars_seed-0", "rae_seed-1", "mars_seed-1"]
    assert [(run.condition, run.seed) for run in again] == [("rae", 1), ("mars", 1), ("rae", 0), ("mars", 0)]
    assert [run.answers for run in again[2:]] == [run.answers for run in first]
    assert again[0].answers == {"lines": {"lines": 2, "process": os.getpid()}}
    assert again[0].cost.training_seconds > 0.0
    assert again[0].cost.peak_memory_gb is None  # it had no process of its own
    with pytest.raises(UsageError, match="planned with other settings"):
        league.sweep({"rae": configs["mars"]}, tmp_path / "sweep", seeds=[0])


@pytest.mark.thorough
def test_runs_in_processes_are_those_of_this_one(tiny, tmp_path):
    config = league.load_config(tiny, *SMALLER)
    here = league.sweep({"a": config}, tmp_path / "here", seeds=[0, 1])
    beside = league.sweep({"a": config}, tmp_path / "beside", seeds=[0, 1], workers=2, questions={"q": last_lines})
    for ours, theirs in zip(here, beside, strict=True):
        curves = [[line["kuhn_poker/exploitability"] for line in one.run.iterations()] for one in (ours, theirs)]
        assert curves[0] == curves[1]
        assert theirs.answers["q"]["process"] != os.getpid()
        assert 0.1 < theirs.cost.peak_memory_gb < 10.0
        assert theirs.cost.training_seconds < theirs.cost.seconds
