"""Seconds that a million stored matches of a thousand players take: to add, and to answer from.

    python -m benchmarks.store_speed [--players N] [--matches N] [--repeats N] [--json]

The shape is the hardest for sums that are kept beside the matches: everybody meets everybody, so there are almost
half as many pairs as matches. Each player is one Elo point better than the one before, as the snapshots of a run might
be, and wins or loses one or two. The matches are added in batches of 1,024, as a run of that many matches an
iteration adds them. What is read is read cold, by a store that was just opened, though the file is in the system's
cache. ``standings`` is the whole command, in a process of its own; ``draw`` is a league's, of one batch.

Expected before the first measurement: 50,000 matches added a second; 50 bytes a match; the sums in about a second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from arena.records import EndReason, Episode, MatchRequest, Turn
from games.files import atomic_write
from games.registry import make_game
from games.seeds import derive_seed
from league.config_matchmaking import ExploitersConfig, MatchmakingConfig
from league.match_store import STORE_FILE, MatchStore
from league.matchmaking import Member, Meta, Scene, draw_matches
from league.payoffs import PayoffTable, Result
from league.tournament import HEADER, QUESTION_FILE

Figures = dict[str, dict[str, float]]
GAME, BATCH = "kuhn_poker", 1024
DRAWS = 5  # as often as the rest: one takes so little that a moment's other work shows
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


def measure(players: int, matches: int, repeats: int, folder: Path) -> Figures:
    """Return min, median and max over the repeats of seconds by what was done, and bytes; matches are added once."""
    draw = drawing(players)
    draws = [_seconds(draw) for _ in range(DRAWS * repeats)]
    path, adding = folder / STORE_FILE, 0.0
    made = episodes(players, matches)
    with MatchStore(path) as store:
        while batch := list(itertools.islice(made, BATCH)):
            start = time.perf_counter()
            store.add(batch)
            adding += time.perf_counter() - start
    ask_for_standings(players, folder)
    asked: dict[str, Callable[[], object]] = {
        "cells": _cold(path, lambda store: store.cells(GAME)),
        "pairs": _cold(path, lambda store: store.pairs(GAME)),
        "cells_and_pairs": _cold(path, lambda store: (store.cells(GAME), store.pairs(GAME))),
        "results": _cold(path, lambda store: sum(1 for _ in store.results())),
        "matches": _cold(path, lambda store: sum(1 for _ in store.matches(GAME))),
        "indices": _cold(path, lambda store: len(store.indices())),
        "standings": lambda: standings(folder),
    }
    taken = {name: [_seconds(ask) for _ in range(repeats)] for name, ask in asked.items()}
    taken |= {"draw": draws, "add": [adding], "bytes_per_match": [path.stat().st_size / matches]}
    return {
        name: {"min": min(values), "median": statistics.median(values), "max": max(values)}
        for name, values in taken.items()
    }


def _cold(path: Path, ask: Callable[[MatchStore], object]) -> Callable[[], object]:
    def opened() -> None:
        with MatchStore(path) as store:
            ask(store)

    return opened


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def drawing(players: int) -> Callable[[], object]:
    """Return the draw of a batch among this many snapshots, all of whom the learner has met, by six rules at once."""
    names = [snapshot(number) for number in range(players)]
    table = PayoffTable(live=["main"], forgetting=0.9)
    rows = [("main", name, GAME, role) for name in names for role in ("first", "second")]
    table.apply([Result(*row, n=10, sum_return=1.0, sumsq_return=10.0, sum_score=6.0, iteration=3) for row in rows])
    members = [Member(name, "main", "main") for name in names]
    meta = Meta(dict.fromkeys(names[::10], 10.0 / players))
    config = MatchmakingConfig(self_play=0.3, fictitious=0.2, pfsp=0.2, verification=0.1, uncertain=0.1, psro=0.1)
    return lambda: draw_matches(
        config=config,
        exploiters=ExploitersConfig(),
        run_seed=0,
        iteration=7,
        game=make_game(GAME).spec,
        scene=Scene(GAME, ("main", "main"), members, table.known, meta),
        learning={"main"},
        exploiting={},
        matches=BATCH,
        first_index=0,
    )


def ask_for_standings(players: int, folder: Path) -> None:
    """Make the matches a tournament's, whose standings can be asked for."""
    names = [snapshot(number) for number in range(players)]
    stands_for = {name: [[[name, 1.0]]] * 2 for name in names}
    question = {"game": GAME, "players": names, "matches": 2, "seed": 0, "stands_for": stands_for}
    atomic_write(folder / QUESTION_FILE, json.dumps(HEADER | question))


def standings(folder: Path) -> None:
    """Run the whole command."""
    subprocess.run([sys.executable, "-m", "league.cli", "standings", folder], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--players", type=int, default=1000)
    parser.add_argument("--matches", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.players, arguments.matches, arguments.repeats, Path(folder))
    if arguments.json:
        print(json.dumps(figures))
        return
    print(f"{'':20}" + "".join(f"{key:>10}" for key in ("min", "median", "max")))
    for name, values in figures.items():
        print(f"{name:20}" + "".join(f"{values[key]:>10.3f}" for key in ("min", "median", "max")))


if __name__ == "__main__":
    main()
