"""The edges of commands: mistakes that are told before the work and with the file, names that no width cuts off."""

import errno
import os
import subprocess
import sys

import pytest
from support.source import ROOT

from games.common.files import atomic_write
from league.cli import main
from league.cli.training import train
from league.config import RunConfig
from league.config.load import write_run_config
from league.population.storage.population import Population
from league.population.storage.run_dir import Run
from league.training.monitors.terminal import Terminal

SMALL = "iterations = 1\nthreads = 1\ngames.kuhn_poker.matches = 4\nmodel.hidden_size = 16\nmodel.layers = 1\n"


@pytest.fixture
def said(capsys, monkeypatch, tmp_path):
    """Return a function that gives a command in an empty folder, and returns its status and its words."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)

    def give(*words):
        status = main([str(word) for word in words])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return give


@pytest.mark.parametrize("command", [("serve",), ("push", "me/player", "--dry-run")], ids=["serve", "push"])
def test_a_mixture_is_no_single_model_and_distil_makes_one(command, run_dir, said):
    name, *rest = command
    status, words = said(name, f"{run_dir}@mixture", *rest)
    assert status == 2
    assert f"league lab distil {run_dir}@mixture -o {run_dir}-distilled\n  league {name} {run_dir}-distilled" in words


def test_serve_refuses_an_unknown_engine_before_it_opens_the_run(said):
    status, words = said("serve", "no/run", "--engine", "vlm")
    assert (status, "There is no server named 'vlm'. Did you mean vllm?" in words) == (2, True)


def test_a_mistake_in_a_file_names_the_file_and_one_in_an_option_does_not(said, tmp_path):
    (tmp_path / "bad.toml").write_text(SMALL.replace("threads", "treads"))
    for more in ((), ("--set", "seed=2")):
        assert said("train", "bad.toml", *more) == (
            2,
            "league: bad.toml: There is no key named 'treads'. Did you mean threads?\n",
        )
    status, words = said("train", "small.toml", "--set", "tread=2")
    assert (status, words) == (2, "league: There is no key named 'tread'. Did you mean threads?\n")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("match RUN random --game kuhn_pokr", "There is no game named 'kuhn_pokr'. Did you mean kuhn_poker"),
        ("exploitability RUN --game kuhn_poker --engine vlm", "There is no engine named 'vlm'"),
        ("match RUN mcts:none --game tic_tac_toe", "mcts:none"),
    ],
)
def test_a_question_of_a_sweep_is_read_before_anything_is_trained(question, sentence, said, tmp_path):
    status, words = said("sweep", "small.toml", "--ask", question)
    assert status == 2
    assert f"--ask {question!r}: " in words
    assert sentence in words
    assert not (tmp_path / "sweeps").exists()


def test_every_condition_of_a_sweep_is_checked_before_the_first_is_trained(said, tmp_path):
    status, words = said("sweep", "small.toml", "--set", "evaluation.anchors=['random'],['nobody']", "--seeds", "0")
    assert status == 2
    assert "nobody" in words
    assert not (tmp_path / "sweeps").exists()


@pytest.mark.parametrize("module", [False, True], ids=["console script", "python -m league"])
def test_a_folder_that_hides_the_leagues_own_ends_a_command_in_its_sentence_alone(module, tmp_path):
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / "__init__.py").write_text("")
    script = tmp_path / "bin" / "league"
    script.parent.mkdir()
    script.write_text("import sys\nfrom league.cli import main\nsys.exit(main())\n")
    how = ["-m", "league"] if module else [str(script)]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, *how, "games"],
        cwd=tmp_path / "bin",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"league: {tmp_path / 'games'} hides the league's own package 'games', which is in ")
    assert done.stderr.count("\n") == 1


def test_a_role_that_a_run_never_trained_is_named_with_who_could_take_it(run_dir, said, tmp_path):
    bound = {"kuhn_poker/first": "opener", "kuhn_poker/second": "caller"}
    write_run_config(tmp_path, RunConfig(games={"kuhn_poker": {}}, roles={"policy": bound}))
    population, model = Population(tmp_path / "population"), Run(run_dir).population.all()[-1].path
    for policy in ("opener", "caller"):
        population.add(
            policy, 5, None, lambda folder: [(folder / p.name).write_bytes(p.read_bytes()) for p in model.glob("*.*")]
        )
    status, words = said("match", tmp_path, "random", "--game", "leduc_poker")
    assert status == 2
    assert (
        f"{tmp_path} never trained the role first of leduc_poker: its policies are caller (kuhn_poker/second)" in words
    )
    assert f"{tmp_path}@caller-000005 or {tmp_path}@opener-000005" in words


@pytest.mark.parametrize("width", [40, 80])
def test_no_width_cuts_off_a_players_name(width, run_dir, said, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    status, words = said("standings", run_dir)
    assert status == 0
    assert "main-000010 (newest)" in words
    assert "rank  player" in words
    assert "…" not in words.partition("rank  player")[2]
    status, words = said("match", "random", "always:bet", "--game", "kuhn_poker", "--matches", "4")
    assert "random as   matches   mean return" in words


def test_the_end_of_training_is_fifteen_lines_and_what_was_learned_is_first(run_dir, capsys):
    train._print_results(Run(run_dir), Terminal(soft_wrap=True))
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0] == "What was learned"
    assert len(lines) <= 15
    assert f"  league standings {run_dir}" in lines


def test_hints_on_how_to_resume_name_the_plugins(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAGUE_PLUGINS", "my_games")
    write_run_config(tmp_path, RunConfig(games={"kuhn_poker": {}}))
    with pytest.raises(ValueError, match=r"league train --resume --run-dir .* --plugin my_games$"):
        Run(tmp_path).population  # noqa: B018


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        atomic_write(tmp_path / "table.json", "{}")
    assert error.value.filename == str(tmp_path / "table.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["runs", "tournaments", "evaluations", "sweeps", "bred"])
def test_git_leaves_alone_what_commands_write(folder):
    done = subprocess.run(["git", "check-ignore", "-q", f"{folder}/pocket/x"], cwd=ROOT, check=False)
    assert done.returncode == 0
