"""What every store in an SQLite file keeps to: whole changes, forced to disk, and sentences."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from games.common import sqlite_file
from games.common.errors import UsageError
from games.common.sqlite_file import SqliteFile, SqliteLayout
from league.population.results.match_store import MatchStore
from learners.record_store.sqlite import SqliteRecordStore

SONGS = SqliteLayout(
    0x736F6E67, 2, "CREATE TABLE songs (name);", "one of songs", "Give another path.", "Sing it again."
)


class Songs(SqliteFile):
    """A store of the least kind."""

    def add(self, *names):
        with self._transaction("IMMEDIATE"):
            for name in names:
                self._db.execute("INSERT INTO songs VALUES (?)", (name,))
                if not name:
                    raise KeyboardInterrupt

    def count(self):
        with self._sqlite_errors():
            return self._number("SELECT count(*) FROM songs WHERE name <> ?", "none")

    def setting(self, name):
        return self._row(f"PRAGMA {name}")[0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "songs.sqlite"


def test_a_new_file_is_laid_out_and_forces_what_is_committed_to_disk(path):
    with Songs(path, SONGS, create=True) as songs:
        songs.add("one", "two")
        assert (songs.setting("journal_mode"), songs.setting("synchronous")) == ("wal", 2)
        assert (songs.setting("application_id"), songs.setting("user_version")) == (0x736F6E67, 2)
    with Songs(path, SONGS) as songs:
        assert songs.count() == 2
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        songs.count()


def test_a_change_is_whole_or_nothing(path):
    with Songs(path, SONGS, create=True) as songs:
        with pytest.raises(KeyboardInterrupt):
            songs.add("one", "")
        assert songs.count() == 0
        songs.add("one")
        assert songs.count() == 1


def test_an_empty_file_is_laid_out_only_where_it_may_be(path):
    path.touch()
    with pytest.raises(UsageError, match=r"is an SQLite file, but not one of songs\. Give another path\."):
        Songs(path, SONGS)
    with Songs(path, SONGS, create=True) as songs:
        assert songs.count() == 0


def test_whoever_opens_a_file_while_another_lays_it_out_finds_it_empty_or_whole(tmp_path):
    def count(path):
        with MatchStore(path) as store:
            return len(store.indices())

    with ThreadPoolExecutor(8) as pool:
        for number in range(40):
            path = tmp_path / f"{number}.sqlite"
            assert list(pool.map(count, [path] * 8)) == [0] * 8


def test_a_file_of_another_store_is_refused_by_each_and_left_as_it_is(path, tmp_path):
    MatchStore(path).close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="not one of songs"):
        Songs(path, SONGS, create=True)
    with pytest.raises(UsageError, match=r"not a record store\. Move it"):
        SqliteRecordStore(path, max_staleness=0, lease_seconds=1.0, max_bytes=1)
    assert path.read_bytes() == before
    records = tmp_path / "records.sqlite"
    SqliteRecordStore.create(records, ["main"])
    with pytest.raises(UsageError, match=r"not one of matches\. Give another path, or move it"):
        MatchStore(records)


def test_a_newer_layout_is_refused_and_an_older_one_read(path):
    Songs(path, SONGS._replace(version=1), create=True).close()
    with Songs(path, SONGS) as songs:
        assert songs.count() == 0
    with pytest.raises(UsageError, match=r"has the layout 1 of a newer league; this one reads layout 0\. Update it"):
        Songs(path, SONGS._replace(version=0))


def test_who_holds_the_file_too_long_is_told_of(path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "WAIT", 0.05)
    with Songs(path, SONGS, create=True) as first, Songs(path, SONGS) as second, first._transaction("IMMEDIATE"):
        with pytest.raises(UsageError, match=r"cannot be used now \(database is locked\)\. See that no other process"):
            second.add("one")
        assert second.count() == 0  # whoever reads is not held up


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed in /proc")
def test_a_file_that_is_refused_is_not_kept_open(path):
    path.write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(UsageError, match=r"is damaged \(file is not a database\)\. Sing it again\.") as caught:
        Songs(path, SONGS)
    assert caught.traceback  # holds the frames, and with them whatever they have open
    assert path not in [handle.resolve() for handle in Path("/proc/self/fd").iterdir()]
