"""The lock of a run directory: which process is refused, after which timeout, and what a death leaves."""

import multiprocessing
import os
import signal
import threading
import time

import pytest

from games.common.errors import UsageError
from league.population.storage.lock import LOCK_FILE, run_lock

FORK = multiprocessing.get_context("fork")


def hold(run_dir, connection):
    """Hold the lock until a message is received."""
    with run_lock(run_dir):
        connection.send_bytes(b"held")
        connection.recv_bytes()


def hold_with_child(run_dir, connection):
    """Hold the lock, with a child that was forked meanwhile and outlives this process."""
    with run_lock(run_dir):
        child = FORK.Process(target=time.sleep, args=(60,))
        child.start()
        connection.send(child.pid)
        time.sleep(60)


@pytest.fixture
def holder(tmp_path):
    """Yield a process that holds the lock, and the connection to it."""
    connection, child_connection = FORK.Pipe()
    process = FORK.Process(target=hold, args=(tmp_path, child_connection))
    process.start()
    assert connection.recv_bytes() == b"held"
    yield process, connection
    process.kill()
    process.join()


def test_a_second_process_is_refused_with_the_holders_id(tmp_path, holder):
    process, _ = holder
    for _ in range(2):  # a refusal neither erases the holder's id nor releases its lock
        with pytest.raises(UsageError, match=f"is in use by process {process.pid}\\."), run_lock(tmp_path):
            pass


def test_a_second_lock_in_one_process_is_refused_too(tmp_path):
    with run_lock(tmp_path):
        with pytest.raises(UsageError, match=f"is in use by process {os.getpid()}\\."), run_lock(tmp_path):
            pass
        with pytest.raises(UsageError, match="is in use"), run_lock(tmp_path):  # the refusal did not release it
            pass


def test_a_lock_whose_holder_is_killed_is_free_and_its_file_stays(tmp_path, holder):
    process, _ = holder
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert (tmp_path / LOCK_FILE).read_text() == str(process.pid)
    with run_lock(tmp_path):
        assert (tmp_path / LOCK_FILE).read_text() == str(os.getpid())
    assert (tmp_path / LOCK_FILE).exists()


def test_a_shorter_process_id_replaces_a_longer_one_whole(tmp_path):
    (tmp_path / LOCK_FILE).write_text("123456789012345")
    with run_lock(tmp_path):
        assert (tmp_path / LOCK_FILE).read_text() == str(os.getpid())


def test_a_lock_is_waited_for_until_its_holder_ends_or_the_timeout(tmp_path, holder):
    _, connection = holder
    started = time.monotonic()
    with pytest.raises(UsageError, match="is in use"), run_lock(tmp_path, timeout=0.2):
        pass
    assert time.monotonic() - started >= 0.2
    threading.Timer(0.2, connection.send_bytes, (b"end",)).start()
    with run_lock(tmp_path, timeout=20.0):
        assert (tmp_path / LOCK_FILE).read_text() == str(os.getpid())


def test_a_forked_child_does_not_keep_the_lock_of_a_parent_that_died(tmp_path):
    connection, child_connection = FORK.Pipe()
    parent = FORK.Process(target=hold_with_child, args=(tmp_path, child_connection))
    parent.start()
    child = connection.recv()
    try:
        with pytest.raises(UsageError, match=f"is in use by process {parent.pid}\\."), run_lock(tmp_path):
            pass  # the child closed the inherited file without releasing the lock
        parent.kill()
        parent.join()
        with run_lock(tmp_path):
            os.kill(child, 0)  # the child still runs
    finally:
        os.kill(child, signal.SIGKILL)
