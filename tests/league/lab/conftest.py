"""Runs' folders as training leaves them, small: a report reads them all, and no test changes them."""

import pytest

from benchmarks.speed.long_run import make_run


@pytest.fixture(scope="session")
def made_run(tmp_path_factory):
    """Return a run of 40 iterations and 9 snapshots."""
    path = tmp_path_factory.mktemp("made") / "pocket-0"
    make_run(path, iterations=40, snapshots=9, matches=16, seed=0)
    return path


@pytest.fixture(scope="session")
def other_run(tmp_path_factory):
    """Return the same with another seed."""
    path = tmp_path_factory.mktemp("made") / "pocket-1"
    make_run(path, iterations=40, snapshots=9, matches=16, seed=1)
    return path
