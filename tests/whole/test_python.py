"""The code of docs/python.md: it runs, does what the commands do, and is typed."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from support.pages import blocks, page_of
from support.source import PACKAGES, ROOT

import league
from league.cli import main

PAGE = page_of("python")
CODE = [text for _, language, text in blocks(PAGE) if language == "python"]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return the folder in which the page's code was run, and what each block of it printed."""
    folder = tmp_path_factory.mktemp("python")
    code = "import contextlib, io, sys\nfor text in sys.argv[1:]:\n    exec(compile(text, 'python.md', 'exec'), {})\n"
    code += "    print('=====')"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *CODE]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout.split("=====\n")


@pytest.mark.thorough
def test_the_code_of_the_page_says_what_the_commands_say(told, monkeypatch, capsys):
    folder, (first, *_) = told
    monkeypatch.chdir(folder)

    def report(*words):
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    ranking = report("standings", "runs/mine")["games"]["kuhn_poker"]["ranking"]
    assert first.splitlines()[: len(ranking)] == [f"{row['player']} {round(row['elo']['mean'])}" for row in ranking]
    result = report("match", "runs/mine", "random", "--game", "kuhn_poker", "--matches", "200", "--seed", "1")
    assert f"{result['score_a']} {result['score_a_low']} {result['score_a_high']}\n" in first
    measured = report("exploitability", "runs/mine@mixture", "--game", "kuhn_poker")
    assert f"{measured['nash_conv'] / 2} True\n" in first


def test_a_run_tells_its_snapshots_weights_and_prompts(told):
    folder, (_, second, *_) = told
    assert second.startswith(f"main-000004 {'runs/mine/population/main-000004'} main-000002\n")
    assert "'model.embed_tokens.weight': (" in second
    assert "\nsystem: " in second
    assert "\nuser: Your card: " in second
    assert (folder / "runs/mine/population/main-000004").is_dir()


def test_a_callback_sees_each_iteration_stops_a_run_and_resume_goes_on(told):
    _, (_, _, third, *_) = told
    lines = third.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "5"]  # and five have been logged in the end
    assert [line.split()[-1] == "None" for line in lines[:3]] == [False, True, False]


def test_a_sweep_trains_every_configuration(told):
    folder, (*_, last, _) = told
    names = ["rae", "mars"]
    assert [line.split()[:3] for line in last.splitlines()] == [
        [name, "0", f"sweeps/rules/{name}_seed-0"] for name in names
    ]
    assert [line.split()[-1] for line in last.splitlines()] == ["3", "3"]  # before the first iteration, and after each
    assert (folder / "sweeps/rules/sweep.json").is_file()


def test_importing_the_league_imports_little():
    """Neither torch nor numpy: a name is loaded when it is first used."""
    code = "import league, sys; print(sorted({'torch', 'numpy', 'pyspiel', 'pydantic'} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_is_handed_on_is_what_is_promised():
    assert set(league.__all__) == set(league._HOMES)
    here = [name for name in league.__all__ if name != "load_environment" or find_spec("verifiers")]
    assert all(getattr(league, name) is not None for name in here)
    with pytest.raises(AttributeError, match="no attribute 'play'"):
        _ = league.play
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


def test_the_first_block_is_twenty_lines():
    assert len([line for line in CODE[0].splitlines() if line.strip()]) <= 20


@pytest.mark.slow
def test_a_strict_type_checker_passes_the_page(tmp_path):
    files = []
    for number, text in enumerate(CODE):
        files.append(tmp_path / f"block_{number}.py")
        files[-1].write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
