"""The guard of speed: what takes more than stored fails by name, and what is planted is seen."""

import copy
import pickle
import sys
import time

import pytest

from arena.samplers import scripted
from benchmarks.guard import command, counts
from benchmarks.guard.command import Stored
from benchmarks.guard.pieces import PIECES
from learners.update import learner


@pytest.fixture
def figures(tmp_path):
    file = tmp_path / "figures.toml"
    stored = Stored({"calls": 1000, "time": 2.0}, "0123456789", "a reason")
    command.write(file, {"arena": stored, "table": stored})
    return file


@pytest.mark.parametrize(("calls", "time", "status"), [(500, 1.0, 0), (1151, 5.99, 0), (1152, 2.0, 1), (1000, 6.01, 1)])
def test_a_count_may_be_fifteen_per_cent_more_and_a_time_three_times(calls, time, status, figures, monkeypatch, capsys):
    given = {"arena": {"calls": 1000, "time": 2.0}, "table": {"calls": calls, "time": time}}
    monkeypatch.setattr(command, "measured", lambda name, _: given[name])
    assert command.main(["arena", "table", "--file", str(figures)]) == status
    told = capsys.readouterr().err
    if status:
        assert ("1152 calls, and 1000" if calls > 1151 else "6.01 times its yardstick, and 2.0") in told
        assert "table takes" in told
        assert "at 0123456789 (a reason)." in told
    assert "arena takes" not in told


def test_new_figures_need_a_reason_and_keep_the_others(figures, monkeypatch):
    monkeypatch.setattr(command, "measured", lambda name, _: {"calls": 3, "time": 0.5})
    with pytest.raises(SystemExit):
        command.main(["--store", "table", "--file", str(figures)])
    assert command.main(["--store", "table", "--reason", 'it "does" less', "--file", str(figures)]) == 0
    kept = command.read(figures)
    assert (kept["table"].figures, kept["table"].reason) == ({"calls": 3, "time": 0.5}, 'it "does" less')
    assert kept["arena"].figures == {"calls": 1000, "time": 2.0}
    assert command.main(["table", "sampler", "--file", str(figures)]) == 2  # which has none


def test_what_is_stored_are_the_figures_of_all_pieces():
    stored = command.read(command.FILE)
    assert set(stored) == set(PIECES)
    assert all(one.reason and "time" in one.figures and len(one.figures) > 1 for one in stored.values())


def _failing(name):
    return command.main([name])


@pytest.mark.thorough
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])  # noqa: S301
def test_a_copy_of_the_batch_in_the_learner_fails(copied, monkeypatch, capsys):
    losses = learner._losses
    monkeypatch.setattr(learner, "_losses", lambda policy, batch, *rest: losses(policy, copied(batch), *rest))
    assert _failing("learner") == 1
    assert "learner takes" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_wait_in_a_turn_fails(monkeypatch, capsys):
    sample = scripted.Random.sample

    def waits(self, requests):
        for _ in requests:
            time.sleep(20e-6)
        return sample(self, requests)

    monkeypatch.setattr(scripted.Random, "sample", waits)
    assert _failing("referee") == 1
    assert "times its yardstick" in capsys.readouterr().err


@pytest.mark.thorough
def test_an_import_of_torch_fails():
    held = command.read(command.FILE)["start"]
    with_torch = counts._MODULES.replace("import atexit", "import torch, atexit")
    assert with_torch != counts._MODULES
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "_MODULES", with_torch)
        assert command.exceeds("modules", counts.of_a_command("--help")["modules"], held)
    assert not command.exceeds("modules", counts.of_a_command("--help")["modules"], held)
    assert "torch" in sys.modules  # of this process, which does not count
