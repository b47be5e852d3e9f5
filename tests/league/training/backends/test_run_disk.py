"""A run's folder reached by the same path, or through a process on the driver's machine, in pieces."""

import os

import pytest

from league.training.backends import run_disk
from league.training.backends.run_disk import TOKEN_FILE, DiskServer, RunDisk, bytes_below

FILES = {"learning.json": b"{}", "main.safetensors/shard-00001.safetensors": bytes(range(256)) * 5, "empty": b""}


class Counting:
    """The server as a handle reaches it, with the bytes of each message."""

    def __init__(self, root):
        self._server, self.messages = DiskServer(root), []

    def call(self, method, *arguments):
        answer = getattr(self._server, method)(*arguments)
        self.messages += [len(value) for value in (*arguments, answer) if isinstance(value, bytes)]
        return answer


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Return a run's disk whose pieces have 100 bytes, and the server behind it."""
    monkeypatch.setattr(run_disk, "PIECE", 100)
    server = Counting(tmp_path)
    return RunDisk(tmp_path, server).mark(tmp_path / "learners"), server


def fill(folder):
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def hide(root):
    """Let it be another machine's disk: there is such a file, and it is not the one that the driver wrote."""
    (root / "learners" / TOKEN_FILE).write_text("another run's")


def test_a_disk_that_is_seen_is_used_by_its_path(disk, tmp_path):
    there, server = disk
    folder = tmp_path / "learners/main/000001-0"
    with there.written(folder) as here:
        assert here == folder
        fill(here)
    with there.read(folder) as here:
        assert here == folder
    assert (server.messages, there.moved) == ([], 0)
    assert sorted(path.name for path in (tmp_path / "learners").iterdir()) == [TOKEN_FILE, "main"], "no probe is left"


def test_a_disk_that_is_not_seen_is_reached_in_pieces(disk, tmp_path):
    there, server = disk
    hide(tmp_path)
    folder = tmp_path / "learners/main/000001-0"
    with there.written(folder) as here:
        assert not here.is_relative_to(tmp_path / "learners")
        fill(here)
        assert not folder.exists()
    assert content(folder) == FILES
    sent = list(server.messages)
    assert (max(sent), sum(sent)) == (100, sum(map(len, FILES.values())))
    with there.read(folder) as copy:
        assert copy != folder
        assert content(copy) == FILES
    assert not copy.exists()
    assert max(server.messages) == 100
    assert there.moved == sum(server.messages) == 2 * sum(sent), "a process that moves bytes makes progress"


def test_what_two_processes_write_is_one_folder_and_the_same_file_written_again_replaces_it(disk, tmp_path):
    there, _ = disk
    hide(tmp_path)
    folder = tmp_path / "learners/main/000001-0"
    for name, text in (("a", b"x" * 300), ("b", b"y"), ("a", b"z" * 150)):
        with there.written(folder) as here:
            (here / name).write_bytes(text)
    assert content(folder) == {"a": b"z" * 150, "b": b"y"}
    assert bytes_below(folder) == 151


def test_a_disk_that_cannot_be_written_or_is_not_there_is_not_seen(disk, tmp_path, monkeypatch):
    there, _ = disk

    def refused(*_):
        raise PermissionError("read-only")

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "touch", refused)
        assert not there.seen
    (tmp_path / "learners" / TOKEN_FILE).unlink()
    assert not RunDisk.seen.func(there)


def test_a_file_that_shrinks_meanwhile_is_told(disk, tmp_path):
    there, server = disk
    hide(tmp_path)
    folder = tmp_path / "learners/main/000001-0"
    fill(folder)
    call = server.call

    def shrinking(method, *arguments):
        if method == "read" and arguments[1] == 300:
            os.truncate(tmp_path / arguments[0], 310)
        return call(method, *arguments)

    server.call = shrinking
    with pytest.raises(OSError, match=r"shard-00001.safetensors became shorter while it was read"), there.read(folder):
        pass
