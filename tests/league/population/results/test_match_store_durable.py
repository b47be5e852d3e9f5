"""The match store is hard to break: interrupts, damaged files, and readers beside a writer."""

import itertools
import math
import multiprocessing
import sqlite3
import struct
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


def packed(kind, *values):
    return struct.pack(f"<{len(values)}{kind}", *values)


HOSTILE = {  # by table and column: what it may not hold
    "batches.matches": (-1, 10**15, "many", 1.5, b"x"),
    "batches.iteration": ("x", 1.5),
    "batches.numbers": (b"abc", "text", 7, packed("q", 0)),
    "batches.casts": (b"", b"abc", "text", packed("i", *[99] * 6), packed("i", *[-1] * 6), packed("i", 1)),
    "batches.deals": (b"", b"abc", "text"),
    "batches.players": (b"", b"abc", *(packed("i", *[player] * 12) for player in (-1, 99, 2**31 - 1))),
    "batches.returns": (b"", *(packed("d", *[gain] * 12) for gain in (math.nan, math.inf))),
    "casts.roles": ("", "{}", "[]", "[1,2]", '["a"]', "null", "[" * 20000, '"ab"', '[["a"],{}]', "1" * 5000),
    "casts.game": ("another",),
}
READS = {
    "cells": lambda store: store.cells(GAME),
    "pairs": lambda store: store.pairs(GAME),
    "matches": lambda store: list(store.matches(GAME)),
    "an iteration's": lambda store: list(store.matches(GAME, iteration=0)),
    "roles": lambda store: store.roles(GAME),
    "results": lambda store: list(store.results()),
    "indices": lambda store: store.indices(),
    "add": lambda store: store.add([episode(50, ("a", "z"), (1.0, -1.0))], 3),
}


@pytest.mark.parametrize("place", HOSTILE)
def test_a_strangers_file_that_contradicts_itself_is_damaged_whatever_reads_it_first(place, tmp_path):
    """Nothing that it claims is believed for size: an id of a player of 2^31 asked for 16 GiB."""
    table, column = place.split(".")
    path = tmp_path / "results.sqlite"
    with MatchStore(path) as store:
        store.add([episode(i, ("a", "b"), (1.0, -1.0)) for i in range(6)], 0)
        store.add([episode(i, ("b", "c"), (2.0, -2.0)) for i in range(6, 10)], 1)
    sound = path.read_bytes()
    for value in HOSTILE[place]:
        path.write_bytes(sound)
        with sqlite3.connect(path) as torn:
            torn.execute(f"UPDATE {table} SET {column} = ? WHERE id = 1", (value,))
        torn.close()
        hostile, refusals = path.read_bytes(), []
        for read in READS.values():
            path.write_bytes(hostile)
            with MatchStore(path) as store:
                try:
                    read(store)
                except UsageError as error:
                    refusals.append(str(error))
        assert refusals, f"nobody refuses {value!r:.40}"
        assert all("is damaged" in refusal for refusal in refusals)


def test_an_iteration_without_matches_has_none(tmp_path):
    with MatchStore(tmp_path / "results.sqlite") as store:
        store.add([episode(0, ("a", "b"), (1.0, -1.0))], 1)
        assert [list(store.matches(GAME, iteration=at)) for at in (0, 2)] == [[], []]
        assert [match.index for match in store.matches(GAME, iteration=1)] == [0]
