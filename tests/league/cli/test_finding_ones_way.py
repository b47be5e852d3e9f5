"""How a new user finds out what there is: examples, presets, settings, the doctor, the version, completion."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import namedtuple

import pytest
from support.source import ROOT

from games.common import plugins
from league.cli import main
from league.cli.commands import COMMANDS, find, written
from league.cli.dispatch import _parsers, parse
from league.cli.showing import doctor
from league.config import RunConfig
from league.config.load import load, preset_names
from learners.advantages import RULES


def report(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_ends_with_examples_that_parse(command, capsys):
    shown = _parsers()[1][command].format_help()
    for words in find(command).EXAMPLES:
        line = f"league {written(command)} {words}".strip()
        assert f"\n  {line}\n" in shown
        arguments = parse(shlex.split(re.split(" >+ ", line)[0])[1:])
        if command == "train" and arguments.config in preset_names():
            load(arguments.config, arguments.set)
    assert max(map(len, shown.splitlines())) <= 120


NAMED_BY_USERS = (
    "roles.policy",
    "roles.player",
    "roles.wordings",
    "policies.main.model",
    "credit.rules",
    "credit.settings",
    "credit.gdpo.weights",
    "credit.gdpo.weights_end",
    "values.estimators",
    "descent.mutate",
    "distil.roles",
    "teacher.players",
    "beliefs.speaking.roles",
    "beliefs.gain.roles",
    "beliefs.listening.roles",
    "contrast.roles",
    "prediction.replies.roles",
    "prediction.tools.roles",
    "shaping.preferred.roles",
    "shaping.agreement.roles",
    "shaping.prediction.roles",
    "objective.epo_ends",
)  # tables of keys of theirs


def test_the_settings_are_all_that_a_configuration_has(capsys):
    """Every key of a configuration as TOML has it is listed, and no other."""
    config = RunConfig(games={"kuhn_poker": {}}, policies={"main": {}})

    def keys(table, prefix=""):
        for key, value in table.items():
            inner = isinstance(value, dict) and prefix + key not in NAMED_BY_USERS
            yield from keys(value, f"{prefix}{key}.") if inner else [prefix + key]

    names = {"games.kuhn_poker.": "games.GAME.", "policies.main.": "policies.NAME."}
    expected = set(keys(config.model_dump()))
    for own, told in names.items():
        expected = {key.replace(own, told) for key in expected}
    listed = report(capsys, "settings", "--all")
    assert {setting["name"] for setting in listed} == expected
    assert all(setting["meaning"] for setting in listed)


def test_a_setting_says_what_it_takes_what_it_means_and_what_it_is_for(capsys):
    listed = {setting["name"]: setting for setting in report(capsys, "settings", "--all")}
    assert listed["credit.rae.decay"] == {
        "name": "credit.rae.decay",
        "kind": "number, at least 0 and at most 1",
        "default": 0.95,
        "required": False,
        "meaning": RULES["rae"].settings.model_fields["decay"].description,
        "of": "for credit.rule = rae",
    }
    assert listed["engine.vllm.kv_cache_gib"]["kind"] == "number, above 0 or none"
    assert listed["engine.vllm.kv_cache_gib"]["of"] == "for engine.kind = vllm"
    assert listed["optimizer.name"]["kind"] == "adamw | adamw8bit"
    assert listed["matchmaking.tree"]["of"] == "for credit.rule = malt"
    assert listed["evaluation.anchors"]["kind"] == "list of words"
    assert listed["seed"]["default"] == 0


def test_without_a_word_the_settings_are_those_that_presets_set(capsys):
    common = {row["name"] for row in report(capsys, "settings")}
    assert {"iterations", "games.GAME.matches", "policies.NAME.rank", "credit.rule"} <= common
    assert not {"alarms.warmup", "credit.rae.fold"} & common
    assert len(common) < 130
    assert len(report(capsys, "settings", "--all")) > 300
    assert [row["name"] for row in report(capsys, "settings", "alarms.warmup")] == ["alarms.warmup"]


def test_settings_are_found_by_a_word_of_their_meaning(capsys):
    assert main(["settings", "EPO)"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("objective.epo  (number, at least 0; default 0.0)\n    weight of keeping entropy")
    assert "\n1 settings." in text
    assert main(["settings", "objektive"]) == 2
    assert capsys.readouterr().err.startswith("league: There is no setting named 'objektive'.")


@pytest.mark.parametrize("name", ["iterations", "policies.NAME.weights"])
def test_a_setting_that_is_named_whole_is_shown_alone(capsys, name):
    assert [setting["name"] for setting in report(capsys, "settings", name)] == [name]


def test_one_preset_is_shown_with_its_file(capsys):
    assert [preset["name"] for preset in report(capsys, "presets", "pocket")] == ["pocket"]
    assert main(["presets", "pocket"]) == 0
    text = capsys.readouterr().out
    assert "[games.kuhn_poker]\nmatches = 512\n" in text
    assert "pocket-long" not in text
    assert main(["presets", "poket"]) == 2
    assert "Did you mean pocket" in capsys.readouterr().err


def test_one_model_is_shown(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("LEAGUE_HOME", str(tmp_path))
    assert [model["name"] for model in report(capsys, "models", "smollm2-135m")["models"]] == ["smollm2-135m"]
    assert main(["models", "smollm"]) == 2
    assert "Did you mean smollm2-135m?" in capsys.readouterr().err
    assert main(["models", "smollm2-135m", "other"]) == 2
    assert "league models get NAME" in capsys.readouterr().err


def test_the_presets_are_told_by_the_first_lines_of_their_files(capsys):
    listed = {preset["name"]: preset for preset in report(capsys, "presets")}
    assert sorted(listed) == preset_names()
    assert listed["pocket"]["games"] == ["kuhn_poker", "tiny_hanabi", "tic_tac_toe"]
    assert listed["pocket"]["about"].startswith("Three small games, one shared policy trained from scratch")
    assert listed["smol"]["model"] == "smollm2-135m"
    assert main(["presets"]) == 0
    assert "pocket: Three small games" in capsys.readouterr().out


def test_the_doctor_finds_nothing_wrong_here(capsys):
    found = report(capsys, "doctor")
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["Python"]["found"] == f"{sys.version.split()[0]} at {sys.executable}"
    assert checks["PyTorch"]["state"] == "ok"
    assert " threads on " in checks["PyTorch"]["found"]
    assert {"processor", "GPU", "vLLM", "Ray", "runs", "models"} <= set(checks)


def test_the_doctor_says_what_is_wrong_and_what_to_do(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("league.population.storage.run_dir.RUNS", tmp_path / "file" / "runs")
    monkeypatch.setenv("LEAGUE_HOME", str(tmp_path / "home"))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage(9, 8, 2**20))
    broken = plugins.Listed("my-games", "games", "go", "The plugin my-games cannot be loaded: OSError: no.")
    monkeypatch.setattr("games.common.registry.listed", lambda: [broken])
    found = report(capsys, "doctor")
    assert not found["ok"]
    wrong = {check["name"]: (check["found"], check["do"]) for check in found["checks"] if check["state"] == "wrong"}
    assert wrong["runs"][0] == f"{tmp_path / 'file'} cannot be written (Not a directory)"
    assert "--run-dir" in wrong["runs"][1]
    assert wrong["models"][0] == f"{tmp_path / 'home'} can be written, 0.0 GiB free, 0 stored"
    assert "export LEAGUE_HOME=DIR" in wrong["models"][1]
    assert wrong["plugin my-games"] == ("games go cannot be loaded", broken.error)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "To fix:\n  runs: Go to a folder" in text
    assert "Nothing is wrong" not in text


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("league ")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("league exploit", ["exploitability"]),
        ("league lab exploit", ["exploit"]),
        ("league lab distil runs/m", ["runs/mine"]),
        ("league match --ga", ["--game"]),
        ("league train pocket-l", ["pocket-league", "pocket-long"]),
        ("league standings runs/m", ["runs/mine"]),
        ("league train pocket --set starts.ru", ["starts.rule="]),
        ("league train pocket --set descent.rule=m", ["descent.rule=merge", "descent.rule=mutate"]),
    ],
)
def test_a_shell_completes_commands_options_presets_runs_and_settings(typed, expected, tmp_path):
    pytest.importorskip("argcomplete")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.toml").write_text("")
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": typed, "COMP_POINT": str(len(typed)), "_ARGCOMPLETE_IFS": "\n"}
    asked |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "told"), "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    environment = os.environ | asked | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-m", "league"]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)
    assert sorted((tmp_path / "told").read_text().split("\n")) == expected


def test_the_script_for_a_shell_is_printed(capsys):
    pytest.importorskip("argcomplete")
    assert main(["completion", "bash"]) == 0
    text = capsys.readouterr().out
    assert "complete " in text
    assert "_python_argcomplete league" in text


def test_a_shell_that_is_not_known_is_refused(capsys):
    assert main(["completion", "nushell"]) == 2
    assert "bash" in capsys.readouterr().err
