"""Sweeps: which runs they are, that a stopped one continues, and that their table is the one made by hand."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time

import pytest
from scipy import stats
from support.processes.runs import TINY
from support.source import ROOT

from games.common.errors import UsageError
from league.cli import main
from league.lab.sweeps.plan import Sweep, load_sweep, parse_seeds, plan_runs, save_plan
from league.theory.statistics import holm, student_p
from league.training.loop import session

SMALLER = ["iterations=2", "snapshot_every=1", "games.kuhn_poker.matches=16", "cold_start.steps=2"]


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return str(path)


def asked(tiny, folder, *more, smaller=SMALLER):
    words = ["sweep", tiny, "--run-dir", str(folder), *more]
    return [*words, *(word for setting in smaller for word in ("--set", setting))]


@pytest.mark.parametrize(
    ("text", "expected"), [("0-4", [0, 1, 2, 3, 4]), ("3", [3]), ("0,2,7-9", [0, 2, 7, 8, 9]), (" 1 , 0 ", [1, 0])]
)
def test_seeds_are_numbers_and_ranges(text, expected):
    assert parse_seeds(text) == expected


@pytest.mark.parametrize("text", ["", "4-0", "-1", "1,1", "a", "0-99999", "1.5"])
def test_other_seeds_are_refused(text):
    with pytest.raises(UsageError, match="--seeds"):
        parse_seeds(text)


def test_every_seed_runs_under_every_combination(tiny):
    runs = plan_runs(tiny, [0, 1], ["credit.rule=rae,reinforce", "iterations=3", "optimizer.learning_rate=1e-4, 5e-4"])
    assert [run.folder for run in runs[:3]] == [
        "credit.rule=rae_optimizer.learning_rate=1e-4_seed-0",
        "credit.rule=rae_optimizer.learning_rate=1e-4_seed-1",
        "credit.rule=rae_optimizer.learning_rate=5e-4_seed-0",
    ]
    found = [(run.config.credit.rule, run.config.optimizer.learning_rate, run.config.seed) for run in runs]
    assert found == [(rule, rate, seed) for rule in ("rae", "reinforce") for rate in (1e-4, 5e-4) for seed in (0, 1)]
    assert {run.config.iterations for run in runs} == {3}


def test_commas_within_brackets_quotes_and_names_of_games_divide_nothing(tiny):
    runs = plan_runs(tiny, [0], ['evaluation.anchors=["random", "always:bet"],["random"]'])
    assert [run.config.evaluation.anchors for run in runs] == [("random", "always:bet"), ("random",)]
    [run] = plan_runs(tiny, [0], ["games.kuhn_poker(players=3).matches=8", 'roles.policy={"kuhn_poker/first"="a"}'])
    assert run.config.games["kuhn_poker(players=3)"].matches == 8
    assert run.folder == "tiny_seed-0"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "seed=1,2"], "give a sweep's seeds with --seeds"),
        (["--set", "credit.rule=rae,rea"], "no credit rule named 'rea'"),
        (["--set", "credit.rule=rae,rae"], "Two runs of the sweep would be the same"),
        (["--resume"], "holds no sweep"),
        (["--condition", "a", "seed=3"], "give a sweep's seeds with --seeds"),
        (["--condition", "credit.rule=rae", "b"], "it has no name"),
        (["--condition", "a", "--condition", "a", "iterations=1"], "two conditions have this name"),
        (["--condition", "a", "credit.rul=rae"], "credit.rul"),
        (["--ask", "games"], "does not mention the run"),
        (["--workers", "2", "--cluster", "local"], "name one of them"),
        (["--seeds", "0-900", "--set", "credit.rule=rae,reinforce"], "a sweep has at most 1,000"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_begins(tiny, tmp_path, capsys, words, message):
    assert main(asked(tiny, tmp_path / "sweep", *words)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


def test_p_values_are_those_of_the_books():
    assert student_p(2.228138852, 10) == pytest.approx(0.05)  # a table of Student's distribution
    assert student_p(-12.7062047, 1) == pytest.approx(0.05)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 3 p1; then 2 p3; then p2, not below that
    assert holm([]) == []


def by_hand(folder, runs, metric):
    """Return the last values of a metric by condition and seed, read off the files."""
    values = {}
    for run in runs:
        lines = (folder / run.folder / "metrics.jsonl").read_text().splitlines()
        found = [json.loads(line)[metric] for line in lines if metric in json.loads(line)]
        values.setdefault(run.config.credit.rule, []).append(found[-1])
    return values


def check_table(folder):
    """Compare a sweep's table with one that other software makes of the runs' files."""
    runs, metric = load_sweep(folder).runs, "kuhn_poker/exploitability"
    table = json.loads((folder / "table.json").read_text())
    assert [entry["name"] for entry in table["conditions"]] == ["credit.rule = rae", "credit.rule = reinforce"]
    values = by_hand(folder, runs, metric)
    for letter, found in zip("AB", values.values(), strict=True):
        mean = table["figures"][metric]["means"][letter]
        low, high = stats.t.interval(0.95, len(found) - 1, statistics.fmean(found), stats.sem(found))
        assert (mean["mean"], mean["mean_low"], mean["mean_high"]) == pytest.approx(
            (statistics.fmean(found), max(low, 0.0), high)  # exploitability is not negative
        )
    [pair] = table["figures"][metric]["pairs"]
    test = stats.ttest_rel(values["reinforce"], values["rae"])
    assert pair["paired"]
    assert (pair["p"], pair["p_holm"]) == pytest.approx((test.pvalue, test.pvalue))
    interval = test.confidence_interval(0.95)
    assert (pair["difference_low"], pair["difference_high"]) == pytest.approx(interval)


@pytest.mark.thorough
def test_a_sweep_that_is_stopped_goes_on_and_its_table_is_the_one_made_by_hand(tiny, tmp_path, monkeypatch, capsys):
    folder, trained, train = tmp_path / "sweep", [], session.train

    def stops_at_the_third(config, path, **how):
        if len(trained) == 2:
            trained.append(None)
            raise KeyboardInterrupt
        trained.append(path.name)
        return train(config, path, **how)

    monkeypatch.setattr(session, "train", stops_at_the_third)
    assert main(asked(tiny, folder, "--seeds", "0-1", "--set", "credit.rule=rae,reinforce")) == 130
    assert not (folder / "table.json").exists()
    before = (folder / trained[0] / "metrics.jsonl").stat().st_mtime_ns
    assert main(["sweep", "--resume", "--run-dir", str(folder)]) == 0
    assert (folder / trained[0] / "metrics.jsonl").stat().st_mtime_ns == before
    assert [name for name in trained if name] == [run.folder for run in load_sweep(folder).runs]
    check_table(folder)
    text = capsys.readouterr().out
    assert "A: credit.rule = rae (seeds 0, 1)" in text
    assert "B − A" in text
    assert f"league board {folder}" in text


@pytest.mark.slow
def test_a_sweep_of_five_seeds_and_two_settings_killed_in_the_middle_goes_on(tiny, tmp_path):
    folder = tmp_path / "sweep"
    words = asked(tiny, folder, "--set", "credit.rule=rae,reinforce", smaller=[])
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-m", "league", *words], cwd=tmp_path, env=environment)
    fourth = folder / "credit.rule=rae_seed-3" / "metrics.jsonl"
    while not fourth.exists() or not fourth.read_text():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(list(folder.glob("*/config.toml"))) == 4
    assert main(["sweep", "--resume", "--run-dir", str(folder)]) == 0
    assert len(list(folder.glob("*/config.toml"))) == 10
    check_table(folder)


def test_what_a_killed_writer_left_of_a_plan_is_removed_and_what_runs_write_is_not(tmp_path):
    left, of_a_run = tmp_path / ".sweep.json.0123abcd.tmp", tmp_path / "run" / ".x.json.0123abcd.tmp"
    of_a_run.parent.mkdir()
    left.write_text("")
    of_a_run.write_text("")
    save_plan(tmp_path, Sweep((), None, ()))
    assert (left.exists(), of_a_run.exists()) == (False, True)
