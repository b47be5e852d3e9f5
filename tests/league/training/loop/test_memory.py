"""A device whose memory is full stops a run with the numbers that take less, and the run continues with them."""

import pytest
import torch
from support.matches.kuhn import kuhn_pocket
from support.processes.runs import TINY

from league.cli import main
from league.config import RunConfig
from league.training.checkpoints.checkpoint import finished_iterations
from league.training.learning import learner as learning
from league.training.loop.failures import RunFailed, telling_of_a_moved_run, telling_of_memory
from learners.update.policy import Policy

TOO_MUCH = 1 << 60  # bytes, which no machine has


def test_an_update_that_finds_no_memory_says_what_takes_less_and_the_run_goes_on(tmp_path, capsys, monkeypatch):
    (tmp_path / "tiny.toml").write_text(TINY + "optimizer.micro_batch_tokens = 64\n")
    run, updates = tmp_path / "run", []

    def update(*arguments, **named):
        updates.append(1)
        if len(updates) == 2:
            torch.empty(TOO_MUCH, dtype=torch.uint8)
        return real(*arguments, **named)

    real = learning.update_policies
    monkeypatch.setattr(learning, "update_policies", update)
    assert main(["train", str(tmp_path / "tiny.toml"), "--run-dir", str(run), "--set", "iterations=3"]) == 1
    told = capsys.readouterr().err
    assert "The memory of cpu is full" in told
    assert "optimizer.micro_batch_tokens = 32 (now 64)" in told
    assert "Everything up to iteration 1 is saved" in told
    config = run / "config.toml"
    config.write_text(config.read_text().replace("micro_batch_tokens = 64", "micro_batch_tokens = 32"))
    assert main(["train", "--resume", "--run-dir", str(run)]) == 0
    assert finished_iterations(run) == 3


def test_other_errors_are_left_as_they_are(tmp_path):
    config = RunConfig(games={"kuhn_poker": {}})
    with pytest.raises(RuntimeError, match="shape"), telling_of_memory(config, tmp_path, {}):
        raise RuntimeError("a shape that does not fit")
    with pytest.raises(RunFailed, match="Nothing is saved"), telling_of_memory(config, tmp_path, {}):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_what_a_trial_pass_found_room_for_is_what_is_halved(tmp_path):
    config = RunConfig(games={"kuhn_poker": {}}, optimizer={"micro_batch_tokens": 32_768})
    policy = Policy("main", kuhn_pocket(), weight_decay=0.0, magnet=False)
    policy.pass_tokens = 8704
    with (
        pytest.raises(RunFailed, match=r"micro_batch_tokens = 4352 \(now 8704\)"),
        telling_of_memory(config, tmp_path, {"main": policy}),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_a_run_that_was_moved_while_it_trained_is_told_how_to_go_on(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.toml").write_text("")
    with pytest.raises(OSError, match="other"), telling_of_a_moved_run(run):
        raise OSError("other")
    run.rename(tmp_path / "moved")
    with pytest.raises(RunFailed, match=r"is gone: .*\n.*--resume --run-dir NEW_PLACE"), telling_of_a_moved_run(run):
        (run / "metrics.jsonl").read_text()
