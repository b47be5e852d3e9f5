"""Disks that are full, and folders that cannot be written: what is told, what still works, and that nothing is lost."""

import shutil
import signal
import urllib.request

import pytest
from support.processes.damage import files
from support.processes.mounts import enlarge, read_only, small_disk
from support.processes.runs import TINY, TrainingProcess, contents, league_train

from league.cli.dispatch import main
from league.training.board.server import serve_tensorboard

pytestmark = pytest.mark.thorough

SMALL = TINY.replace("matches = 64", "matches = 16").replace("iterations = 6", "iterations = 4")
MIB = 2**20


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Return a configuration's file and the run that was trained by it."""
    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "small.toml").write_text(SMALL)
    ended = league_train(folder / "small.toml", run_dir=folder / "run")
    assert ended.status == 0, ended.output
    return folder / "small.toml", folder / "run"


def size(run):
    return sum(path.stat().st_size for path in run.rglob("*") if path.is_file())


@pytest.mark.parametrize("share", [0.15, 0.4, 0.6, 0.8])
def test_a_full_disk_is_told_and_with_room_the_run_ends_with_the_same_bits(share, unbroken, tmp_path):
    config, whole = unbroken
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, int(share * size(whole))):
        ended = league_train(config, run_dir=disk / "run")
        assert ended.status == 1, ended.output
        assert "Traceback" not in ended.output, ended.output
        assert f"There is no room left for {disk / 'run'} (No space left on device)." in ended.output
        assert f"Make room, then continue:\n  league train --resume --run-dir {disk / 'run'}" in ended.output
        assert not list((disk / "run/state").glob(".*"))  # what is not complete takes no room
        if list((disk / "run/state").glob("iteration-*")):
            assert "MB are free. Everything up to iteration" in ended.output
        else:
            assert "Nothing was saved yet." in ended.output
        enlarge(disk, 64 * MIB)
        ended = league_train("--resume", run_dir=disk / "run")
        assert ended.status == 0, ended.output
        assert contents(disk / "run") == contents(whole)


@pytest.mark.parametrize("learners", [[], ["--set", "async_learners.processes=each"]], ids=["here", "apart"])
def test_a_file_that_may_not_grow_so_large_is_told(learners, unbroken, tmp_path):
    config, _ = unbroken
    run = tmp_path / "run"
    ended = TrainingProcess(config, *learners, run_dir=run, die_at=("state/.iteration-000002", 0)).end()
    assert ended.status == -signal.SIGKILL, ended.output
    largest = (run / "state/iteration-000001/main.safetensors").stat().st_size // 2
    ended = TrainingProcess("--resume", run_dir=run, largest_file=largest).end(within=120)
    assert ended.status == 1, ended.output
    assert "Traceback" not in ended.output, ended.output
    assert "(File too large)" in ended.output
    assert "Everything up to iteration 1 is saved." in ended.output
    assert league_train("--resume", run_dir=run).status == 0


def test_evolving_onto_a_full_disk_leaves_nothing(unbroken, tmp_path, capsys):
    _, run = unbroken
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, size(run) // 3):
        assert main(["evolve", str(run), "--run-dir", str(disk / "more"), "--iterations", "1"]) == 1
        assert "There is no room left" in capsys.readouterr().err
        assert list(disk.iterdir()) == []


@pytest.mark.parametrize("log", [False, True], ids=["ended", "killed"])
def test_a_folder_that_cannot_be_written_can_be_looked_at(log, unbroken, tmp_path, capsys):
    run = tmp_path / "run"
    if log:  # killed, it has left a write-ahead log alongside its matches
        ended = TrainingProcess(unbroken[0], run_dir=run, die_at=("state/.iteration-000004", 0)).end()
        assert ended.status == -signal.SIGKILL, ended.output
        assert (run / "results.sqlite-wal").stat().st_size
    else:
        shutil.copytree(unbroken[1], run)
    before = files(run)
    game = ["--game", "kuhn_poker"]
    with read_only(run):
        assert main(["standings", str(run)]) == 0
        assert "main-000002" in capsys.readouterr().out
        assert main(["match", str(run), "random", *game, "--matches", "8"]) == 0
        assert main(["exploitability", f"{run}@mixture", *game]) == 0
        address = serve_tensorboard([run], 0)
        with urllib.request.urlopen(f"{address}data/plugins_listing", timeout=30) as reply:
            assert reply.status == 200
        capsys.readouterr()
        for words in (["train", "--resume"], ["evolve", str(unbroken[1])]):
            target = run / "more" if words[0] == "evolve" else run
            assert main([*words, "--run-dir", str(target)]) == 2
            error = capsys.readouterr().err
            assert f"{target}: nothing can be written" in error
            assert "ead-only" in error or "denied" in error
        assert main(["evolve", str(run), "--run-dir", str(tmp_path / "more"), "--iterations", "1"]) == 0
    assert files(run) == before
