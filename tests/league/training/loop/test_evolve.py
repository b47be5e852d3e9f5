"""A population continues under new settings, in a run of its own."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.processes.damage import damage
from support.processes.runs import TINY, contents

from league.cli import main
from league.config import RunConfig
from league.config.context import run_context
from league.population.storage.population import Population
from league.population.storage.run_dir import Run, run_names
from league.training.board.metrics_log import read_metrics
from league.training.loop import evolve as evolving
from league.training.loop.evolve import evolve

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evolve")
    (folder / "tiny.toml").write_text(TINY)
    assert main(["train", str(folder / "tiny.toml"), "--run-dir", str(folder / "first"), "--set", "iterations=4"]) == 0
    return folder / "first"


def evolved(source, target, *settings):
    words = [word for setting in settings for word in ("--set", setting)]
    return main(["evolve", str(source), "--run-dir", str(target), "--iterations", "2", *words])


def test_nothing_but_the_time_changes_without_new_settings(source, tmp_path):
    """Four iterations and two more are six: bit for bit the run that was asked for six at once, whose rates it has."""
    constant = ["--set", "iterations=6"]  # TINY has no schedule that depends on the run's length
    config = source.parent / "tiny.toml"
    assert main(["train", str(config), "--run-dir", str(tmp_path / "whole"), *constant]) == 0
    before = contents(source)
    assert evolved(source, tmp_path / "more") == 0
    assert contents(source) == before, "the first run is as it was"
    whole, more = contents(tmp_path / "whole"), contents(tmp_path / "more")
    assert json.loads(more.pop("origin.json"))["iteration"] == 4
    expected, actual = (
        {name: text for name, text in files.items() if not name.startswith("episodes/")} for files in (whole, more)
    )
    assert expected.keys() == actual.keys()
    assert [name for name in expected if expected[name] != actual[name]] == []


def test_exploiters_join_a_population(source, tmp_path):
    settings = ["policies.probe.league_role=main_exploiter", "exploiters.freeze_from=1", "exploiters.freeze_after=1"]
    assert evolved(source, tmp_path / "more", *settings, "evaluation.mixture=nash", "objective.magnet=0.1") == 0
    run = Run(tmp_path / "more")
    assert [snapshot.id for snapshot in run.population.all("probe")] == ["probe-000005", "probe-000006"]
    assert [line["iteration"] for line in read_metrics(run.path)] == list(range(7))
    assert run.config.league_roles == {"probe": "main_exploiter"}
    assert main(["standings", str(run.path)]) == 0
    assert main(["match", f"{run.path}@mixture", "random", "--game", "kuhn_poker", "--matches", "8"]) == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["model.hidden_size=64"], "model.hidden_size cannot be changed"),
        (["iterations=9"], "Give the number of further iterations with --iterations"),
        (["policies.main.weights=lora"], "policies.main cannot change its weights"),
        (
            ['roles.player={"kuhn_poker/first"="random"}', 'roles.policy={"kuhn_poker/second"="other"}'],
            "roles.player gives away every role of main",
        ),
        (
            ['roles.player={"kuhn_poker/first"="random", "kuhn_poker/second"="random"}'],
            "gives away every role of kuhn_poker",
        ),
        (
            ["policies.probe.league_role=main_exploiter", "exploiters.share=0"],
            "gives probe no match to learn from",
        ),
    ],
)
def test_what_the_weights_cannot_follow_is_refused(source, tmp_path, capsys, settings, sentence):
    assert evolved(source, tmp_path / "more", *settings) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "more").exists()


def test_a_refusal_after_the_copy_leaves_nothing_that_could_be_taken_for_a_run(source, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings = ["policies.probe.league_role=main_exploiter", "policies.probe.weights=lora"]
    assert evolved(source, "runs/more", *settings) == 2
    assert "an evolved run can only add policies that train all weights" in capsys.readouterr().err
    assert list((tmp_path / "runs").iterdir()) == []
    shutil.copytree(source, tmp_path / "runs/.killed.partial")  # as a killed one leaves it
    assert run_names() == []
    assert main(["match", "killed", "random", "--game", "kuhn_poker"]) == 2
    assert "partial" not in capsys.readouterr().err
    assert main(["train", "--resume"]) == 2
    assert "There is no run" in capsys.readouterr().err


def test_a_damaged_source_is_refused_with_how_to_go_back(source, tmp_path, capsys):
    run = shutil.copytree(source, tmp_path / "run")
    damage(run / "state/iteration-000004/main.safetensors", "last bit flipped")
    assert evolved(run, tmp_path / "more") == 2
    error = capsys.readouterr().err
    assert "main.safetensors is damaged (it has changed since it was saved)" in error
    assert f"league train --resume --from 3 --run-dir {run}" in error
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_is_copied_is_on_the_disk_before_it_has_its_name_and_then_its_name_is(source, tmp_path, monkeypatch):
    synced, renamed, names = set[int](), [], {}
    fsync, replace = os.fsync, Path.replace

    def spied_fsync(handle):
        synced.add(os.fstat(handle).st_ino)
        if renamed:
            names[os.fstat(handle).st_ino] = True
        fsync(handle)

    def spied_replace(path, target):
        if path.name == ".more.partial":
            renamed.append({each.stat().st_ino for each in [path, *path.rglob("*")]} - synced)
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", spied_fsync)
    monkeypatch.setattr(Path, "replace", spied_replace)
    evolve(source, tmp_path / "more", 1, [])
    assert renamed == [set()]
    assert tmp_path.stat().st_ino in names


def test_the_view_begins_with_the_first_value_of_the_first_run(source, tmp_path, capsys):
    first, *_ = [line for line in read_metrics(source) if "kuhn_poker/exploitability" in line]
    assert evolved(source, tmp_path / "more") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("iteration 6/6")]
    last = list(read_metrics(tmp_path / "more"))[-1]["kuhn_poker/exploitability"]
    assert f"exploitability {first['kuhn_poker/exploitability']:.3f} → {last:.3f}" in lines[0]


def test_wrong_words_are_sentences(source, tmp_path, capsys):
    assert main(["evolve", "nowhere"]) == 2
    assert "no run named 'nowhere'" in capsys.readouterr().err
    assert main(["evolve", str(source), "--iterations", "0"]) == 2
    assert "--iterations 0: it should be a whole number from 1" in capsys.readouterr().err
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    assert evolved(source, tmp_path / "taken") == 2
    assert "not empty" in capsys.readouterr().err


def test_a_new_main_policy_begins_as_the_newest_snapshot_and_an_exploiter_as_the_oldest(tmp_path, monkeypatch):
    population = Population(tmp_path)
    for step, parent in ((0, None), (2, "main-000000"), (4, "main-000002")):
        population.add("main", step, parent, lambda folder: (folder / "model.safetensors").write_bytes(b"weights"))
    config = RunConfig(
        games={"kuhn_poker": {}},
        policies={"probe": {"league_role": "main_exploiter"}},
        roles={"policy": {"kuhn_poker/second": "rival"}},
    )
    lm = SimpleNamespace(adapters=None, with_weights=lambda path: path.name)
    monkeypatch.setattr(evolving, "new_policy", lambda context, name, lm: lm)
    begun = [
        evolving._evolved_policy(
            run_context(config, tmp_path), name, {"main": SimpleNamespace(name="main", lm=lm)}, population
        )
        for name in ("rival", "probe")
    ]
    assert begun == ["main-000004", "main-000000"]
