"""A checkpoint that is written beside training appears when all of it is there; until then the one before it counts."""

import errno
import shutil
from concurrent.futures import Future

import pytest
from torch.distributed.checkpoint.api import CheckpointException

from league.config import RunConfig
from league.population.storage.immutable_folder import check_manifest
from league.population.storage.run_dir import STATE_FOLDER
from league.training.checkpoints.checkpoint import (
    checkpoints,
    finish_checkpoint,
    load_checkpoint,
    number_of,
    save_checkpoint,
    save_ratings,
    verified_record,
)
from league.training.checkpoints.played import PlayedMatches
from league.training.checkpoints.run_state import new_state

CONFIG = RunConfig(games={"kuhn_poker": {}})


class Parts:
    """A policy whose parts other processes write."""

    def __init__(self):
        self.written = Future()

    def save(self, path):
        path.mkdir()
        (path / "shard-00001.safetensors").write_bytes(b"a part")
        return self.written

    def keep_elsewhere(self, files):
        """Nothing of it is elsewhere."""


@pytest.fixture
def begun(tmp_path):
    """Return a state after two iterations, the second of which is being saved, and its policy."""
    (tmp_path / STATE_FOLDER).mkdir()
    state, parts, played = new_state(CONFIG, tmp_path, {}), Parts(), PlayedMatches(tmp_path)
    for iteration in (1, 2):
        state.iteration = iteration
        save_ratings(tmp_path, state)
        state.policies = {"main": parts} if iteration == 2 else {}
        played.keep(iteration, [])
        save_checkpoint(tmp_path, state, 1, lambda: played.forget(2))
    yield state, parts
    if not parts.written.done():
        parts.written.set_result(None)
    state.store.close()


def there(run):
    return [number_of(folder) for folder in checkpoints(run)]


def test_it_appears_when_all_parts_are_written(begun, tmp_path):
    state, parts = begun
    assert there(tmp_path) == [1]
    assert (tmp_path / STATE_FOLDER / "played/000002.jsonl").exists()
    state.iteration = 3  # training goes on meanwhile
    save_ratings(tmp_path, state)
    state.credit["rae"] = {"learned": "since"}
    PlayedMatches(tmp_path).keep(3, [])
    parts.written.set_result(None)
    finish_checkpoint(state)
    assert there(tmp_path) == [2], "and the older one is gone"
    folder = checkpoints(tmp_path)[0]
    check_manifest(folder)
    assert (folder / "main.safetensors/shard-00001.safetensors").is_file()
    assert verified_record(folder).credit == {}, "as it was when it began"
    assert (verified_record(folder).iteration, verified_record(folder).rated_at) == (2, 2)
    assert sorted(path.name for path in (tmp_path / STATE_FOLDER).glob("ratings-*")) == [
        "ratings-000002.json",
        "ratings-000003.json",
    ]
    assert [path.name for path in (tmp_path / STATE_FOLDER / "played").iterdir()] == ["000003.jsonl"]
    finish_checkpoint(state)  # twice is once


def test_a_kill_meanwhile_leaves_the_one_before_it_good(begun, tmp_path):
    killed = tmp_path.with_name("killed")
    shutil.copytree(tmp_path, killed)
    back = load_checkpoint(CONFIG, killed, {})
    assert back.iteration == 1
    assert there(killed) == [1]
    assert not list((killed / STATE_FOLDER).glob(".iteration*")), "what was begun is removed"
    back.store.close()


def test_the_next_waits_for_it(begun, tmp_path):
    state, parts = begun
    state.iteration, state.policies = 3, {}
    parts.written.set_result(None)
    save_checkpoint(tmp_path, state, 2)
    assert there(tmp_path) == [2, 3]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_full_disk_is_told_and_the_one_before_it_stays(wrapped, begun, tmp_path):
    state, parts = begun
    full = OSError(errno.ENOSPC, "No space left on device", "shard-00002.safetensors")
    parts.written.set_exception(CheckpointException("write", {1: (full, None)}) if wrapped else full)
    with pytest.raises(OSError, match="No space left"):
        finish_checkpoint(state)
    assert there(tmp_path) == [1]
    assert not list((tmp_path / STATE_FOLDER).glob(".iteration*"))
    assert state.saving is None
