"""The match store is hard to break: interrupts, damaged files, and readers beside a writer."""

import itertools
import multiprocessing
import sqlite3
import sys

import pytest
from support.matches.made_up import GAME, episode

from games.common.errors import UsageError
from league.population.results.match_store import VERSION, MatchStore

pytestmark = pytest.mark.thorough


def test_interrupted_at_any_line_and_added_again_every_match_counts_once(tmp_path):
    matches = [episode(i, ("a", "b"), (1.0, -1.0), game=f"game {i % 2}") for i in range(6)]
    for line in itertools.count():
        left = line

        def interrupt(frame, event, arg):
            nonlocal left
            if event == "line" and frame.f_code.co_filename.endswith(("match_store.py", "sqlite_file.py")):
                left -= 1
                if left == -1:
                    raise KeyboardInterrupt
            return interrupt

        with MatchStore(tmp_path / f"{line}.sqlite") as store:
            store.add(matches[:2])
            before = sys.gettrace()
            sys.settrace(interrupt)
            try:
                store.add(matches[2:])
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            store.add(matches)
            assert [store.cells(game).n.tolist() for game in store.games()] == [[3], [3]]
        if left >= 0:  # it came to its end
            break
    assert line > 40


def test_a_damaged_or_foreign_or_newer_file_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "results.sqlite"
    path.write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(UsageError, match=r"results\.sqlite is damaged \(file is not a database\)\. Restore it"):
        MatchStore(path)
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE songs (name)")
    with pytest.raises(UsageError, match="not one of matches"):
        MatchStore(path)
    path.unlink()
    MatchStore(path).close()
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer.close()
    with pytest.raises(UsageError, match=f"layout {VERSION + 1} of a newer league"):
        MatchStore(path)


def test_a_file_whose_middle_is_gone_is_refused_when_it_is_read(tmp_path):
    path = tmp_path / "results.sqlite"
    with MatchStore(path) as store:
        store.add([episode(i, ("a", "b"), (1.0, -1.0)) for i in range(2000)])
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + b"\xff" * 8192 + content[middle + 8192 :])
    with MatchStore(path) as store, pytest.raises(UsageError, match="is damaged"):
        store.cells(GAME)
    path.write_bytes(content)
    with sqlite3.connect(path) as torn:
        torn.execute("UPDATE batches SET returns = substr(returns, 1, 800)")
    torn.close()
    with MatchStore(path) as store, pytest.raises(UsageError, match="not every match of toy has 2 players"):
        store.pairs(GAME)


def write(path, batches_of_ten):
    with MatchStore(path) as store:
        for batch in range(batches_of_ten):
            store.add([episode(10 * batch + i, ("a", "b"), (1.0, -1.0)) for i in range(10)], batch)


def test_two_readers_see_whole_batches_while_another_process_writes(tmp_path):
    path, batches_of_ten = tmp_path / "results.sqlite", 200
    with MatchStore(path) as first, MatchStore(path) as second:
        writer = multiprocessing.get_context("fork").Process(target=write, args=(path, batches_of_ten))
        writer.start()
        seen = []
        while writer.is_alive():
            for reader in (first, second):
                seen.append(int(reader.cells(GAME).n.sum()))
                assert seen[-1] % 10 == 0
        writer.join()
        assert writer.exitcode == 0
        assert seen == sorted(seen)
        assert first.count(GAME) == second.cells(GAME).n.sum() == 10 * batches_of_ten
