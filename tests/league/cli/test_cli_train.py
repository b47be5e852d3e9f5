"""``league train`` from the outside: a whole small run, one that is stopped and resumed, and refusals."""

import gc
import json
import signal
import subprocess
import sys

import pytest
import torch
from support.source import ROOT

from games.registry import make_game
from league.cli import main
from league.cli.training.train import learning_summary, utilisation_sentence
from league.training.board.metrics_log import MetricsLog

SMALL = """
iterations = 2
snapshot_every = 1
threads = 1
games.kuhn_poker.matches = 16
model.hidden_size = 16
model.layers = 1
model.intermediate_size = 16
cold_start.steps = 2
cold_start.matches = 4
evaluation.matches = 4
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def test_training_leaves_the_process_as_it_was(folder):
    """Whoever trained may need subnormal floats: Hypothesis draws them."""
    threads, thresholds = torch.get_num_threads(), gc.get_threshold()
    main(["train", "small.toml", "--set", "threads=2"])
    assert float.fromhex("0x1p-1022") / 2 > 0.0
    assert (torch.get_num_threads(), gc.get_threshold()) == (threads, thresholds)


def test_a_run_ends_with_what_was_learned_and_what_to_try(folder, capsys):
    assert main(["train", "small.toml", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert "The run is kept in runs/small." in out
    assert "league standings runs/small" in out
    assert "kuhn_poker: exploitability" in out
    assert "in theory −1/18" in out
    assert "league match runs/small random --game kuhn_poker" in out
    assert "league exploitability runs/small@mixture --game kuhn_poker" in out
    assert "seed = 3" in (folder / "runs/small/config.toml").read_text()
    assert main(["standings", "small", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["games"]["kuhn_poker"]["exploitability"]) == 3

    assert main(["train", "small.toml", "--set", "iterations=1"]) == 0  # a second run does not touch the first
    assert "runs/small-2" in capsys.readouterr().out

    assert main(["train", "small.toml", "--run-dir", "runs/small"]) == 2
    assert "--resume --run-dir runs/small" in capsys.readouterr().err


def test_resume_is_refused_where_it_cannot_keep_its_word(folder, capsys):
    assert main(["train", "--resume", "--set", "iterations=9"]) == 2
    assert "--resume continues with the run's own configuration" in capsys.readouterr().err
    assert main(["train", "--resume"]) == 2
    assert "no run of any preset" in capsys.readouterr().err
    assert main(["train", "--resume", "--run-dir", "absent"]) == 2
    assert "absent holds no run" in capsys.readouterr().err
    assert not (folder / "absent").exists()


@pytest.mark.thorough
def test_an_interrupted_run_says_how_to_resume_and_does(folder):
    league = [sys.executable, "-m", "league", "train"]
    command = [*league, "small.toml", "--set", "iterations=100000", "--set", "snapshot_every=100000"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment, "cwd": folder}
    with subprocess.Popen(command, **pipes) as process:
        for line in process.stderr:
            if line.startswith("iteration"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "league train --resume --run-dir runs/small" in out
    with subprocess.Popen([*league, "--resume"], **pipes) as process:
        for line in process.stderr:
            if line.startswith("iteration"):
                break
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The run is kept in runs/small." in out


def test_a_run_that_is_stopped_at_once_says_how_to_go_on(folder, capsys, monkeypatch):
    def stopped_twice(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("league.training.loop.session.run_loop", stopped_twice)
    assert main(["train", "small.toml"]) == 130
    out = capsys.readouterr().out
    assert "Stopped at once" in out
    assert "league train --resume --run-dir runs/small" in out
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert main(["train", "--resume", "--run-dir", "runs/small"]) == 0
    monkeypatch.setattr("league.training.loop.session.tuned_process", stopped_twice)
    assert main(["train", "small.toml", "--run-dir", "other"]) == 130
    assert "league train --resume --run-dir other" in capsys.readouterr().out


def test_a_guest_that_cannot_play_is_refused_before_anything_is_made(folder, capsys):
    assert main(["train", "small.toml", "--run-dir", "new", "--set", 'matchmaking.guests=["mcts:9"]']) == 2
    assert "mcts needs perfect information" in capsys.readouterr().err
    assert not (folder / "new").exists()


NEGOTIATION = "simple_negotiation(goods=2,stock=1,most=2,turns=3,form=1)"
MIXED = {"return/first": 0.2, "return/second": 0.3, "ce_gap": 0.1, "exploitability": 0.4}


def test_what_was_learned_is_told_by_the_kind_of_game(tmp_path):
    with MetricsLog(tmp_path) as board:
        first = {"kuhn_poker/exploitability": 0.46, "tiny_hanabi/return": 3.9, "tic_tac_toe/score_against_random": 0.5}
        last = {"kuhn_poker/exploitability": 0.05, "tiny_hanabi/return": 9.8, "tic_tac_toe/score_against_random": 0.9}
        board.write(0, first)
        board.write(1, last | {"kuhn_poker/first_seat_value": -0.056, "kuhn_poker/score_against_random": 0.6})
    kuhn, hanabi, tic_tac_toe = (
        list(learning_summary(tmp_path, make_game(game).spec)) for game in ("kuhn_poker", "tiny_hanabi", "tic_tac_toe")
    )
    assert kuhn == [
        "exploitability 0.460 → 0.050 (0 is a Nash equilibrium)",
        "value to the first seat −0.056, in theory −1/18",
    ]
    shares = utilisation_sentence([{"mfu/play": 0.2, "mfu/learn": 0.5}, {"mfu/play": 0.4}])
    assert shares == "of the rate of a plain product on this machine: play 30%, learning 50% (league show docs learner)"
    assert not utilisation_sentence([{"iteration": 1.0}])
    assert hanabi == ["mean return together 3.900 → 9.800 of at most 10"]
    assert tic_tac_toe == ["score against random 0.500 → 0.900 (win 1, draw ½, loss 0)"]


def test_a_game_of_three_different_seats_ends_with_what_each_has_learned(tmp_path, capsys):
    config = tmp_path / "judged.toml"
    config.write_text(SMALL.replace("games.kuhn_poker", 'games."judged_arithmetic(judge=1)"'))
    assert main(["train", str(config), "--run-dir", str(tmp_path / "run")]) == 0
    learned = capsys.readouterr().out.partition("What was learned\n")[2].partition("\n\n")[0]
    roles = ("solver", "evaluator", "judge")
    told = [f"mean return in training as {role}" for role in roles] + ["share of verdicts that agree with the truth"]
    assert [line.split(" → ")[0].rpartition(" ")[0].strip() for line in learned.splitlines()] == [
        f"judged_arithmetic(judge=1): {words}" for words in told
    ]


def test_where_interests_are_common_or_mixed_what_was_earned_comes_first_and_0_is_not_called_good(tmp_path):
    """Who babbles in a signalling game cannot be exploited either."""
    with MetricsLog(tmp_path) as board:
        for iteration, values in enumerate(
            ({"return": 0.33, "exploitability": 0.002}, {"return": 0.34, "exploitability": 0.001})
        ):
            signalling = {f"lewis_signaling/{key}": value for key, value in values.items()}
            small = {f"{NEGOTIATION}/{key}": value + iteration for key, value in MIXED.items()}
            board.write(iteration, signalling | small)
    assert list(learning_summary(tmp_path, make_game("lewis_signaling").spec)) == [
        "mean return together 0.330 → 0.340 of at most 1",
        "exploitability 0.002 → 0.001 (what a seat gains by deviating alone; 0 does not mean that play is good)",
    ]
    lines = list(learning_summary(tmp_path, make_game(NEGOTIATION).spec))
    assert lines[0] == "welfare (the returns of all seats in training) 0.500 → 2.500"
    assert lines[3] == "gap to a correlated equilibrium, summed over seats, 0.100 → 1.100"
    assert not any("Nash equilibrium" in line for line in lines)
