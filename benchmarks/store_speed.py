"""Seconds that a million stored matches of a thousand players take: to add, and to answer from.

    python -m benchmarks.store_speed [--players N] [--matches N] [--json]

The shape is the hardest for sums that are kept beside the matches: everybody meets everybody, so there are almost
half as many pairs as matches. Each player is one Elo point better than the one before, as the snapshots of a run might
be, and wins or loses one or two. The matches are added in batches of 1,024, as a run of that many matches an
iteration adds them. What is read is read cold, by a store that was just opened, though the file is in the system's
cache. ``standings`` is the whole command, in a process of its own.

Expected before the first measurement: 50,000 matches added a second; 50 bytes a match; the sums in about a second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from arena.records import EndReason, Episode, MatchRequest, Turn
from games.files import atomic_write
from games.seeds import derive_seed
from league.match_store import STORE_FILE, MatchStore
from league.tournament import HEADER, QUESTION_FILE

GAME, BATCH = "kuhn_poker", 1024
TURNS = tuple(Turn(seat, role, "", "", (), "", None, 0.0, None) for seat, role in enumerate(("first", "second")))


def episodes(players: int, matches: int) -> Iterator[Episode]:
    """Yield matches pair by pair, each deal in both seatings, and from the first pair again when all have met."""
    rng = random.Random(0)
    meetings = (
        pair[::order] for pair in itertools.cycle(itertools.combinations(range(players), 2)) for order in (1, -1)
    )
    for index, (first, second) in enumerate(itertools.islice(meetings, matches)):
        seated = (snapshot(first), snapshot(second))
        request = MatchRequest(
            index, GAME, derive_seed("deal", index // 2), index, seated, (False, False), "tournament"
        )
        won = rng.random() < 1.0 / (1.0 + 10.0 ** ((second - first) / 400.0))
        gain = rng.choice((1.0, 2.0)) if won else rng.choice((-1.0, -2.0))
        yield Episode(request, TURNS, (gain, -gain), EndReason.FINISHED)


def snapshot(number: int) -> str:
    """Return a player's name."""
    return f"main-{number:06d}"


def measure(players: int, matches: int, folder: Path) -> dict[str, float]:
    """Return seconds by what was done, and bytes."""
    path, adding = folder / STORE_FILE, 0.0
    made = episodes(players, matches)
    with MatchStore(path) as store:
        while batch := list(itertools.islice(made, BATCH)):
            start = time.perf_counter()
            store.add(batch)
            adding += time.perf_counter() - start
    figures = {"add": adding, "bytes_per_match": path.stat().st_size / matches}
    asked: dict[str, Callable[[MatchStore], object]] = {
        "cells": lambda store: store.cells(GAME),
        "pairs": lambda store: store.pairs(GAME),
        "cells_and_pairs": lambda store: (store.cells(GAME), store.pairs(GAME)),
        "results": lambda store: sum(1 for _ in store.results()),
        "matches": lambda store: sum(1 for _ in store.matches(GAME)),
        "indices": lambda store: len(store.indices()),
    }
    for name, ask in asked.items():
        with MatchStore(path) as store:
            start = time.perf_counter()
            ask(store)
            figures[name] = time.perf_counter() - start
    return figures | {"standings": standings(players, folder)}


def standings(players: int, folder: Path) -> float:
    """Return the seconds of ``league standings`` on these matches as a tournament's."""
    names = [snapshot(number) for number in range(players)]
    stands_for = {name: [[[name, 1.0]]] * 2 for name in names}
    question = {"game": GAME, "players": names, "matches": 2, "seed": 0, "stands_for": stands_for}
    atomic_write(folder / QUESTION_FILE, json.dumps(HEADER | question))
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "league.cli", "standings", folder], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--players", type=int, default=1000)
    parser.add_argument("--matches", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.players, arguments.matches, Path(folder))
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:20}{value:>10.2f}{'' if name == 'bytes_per_match' else ' s'}")


if __name__ == "__main__":
    main()
