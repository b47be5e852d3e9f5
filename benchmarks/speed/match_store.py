"""Seconds that the match store takes for a million matches of a thousand players: to add them, and to query them.

    python -m benchmarks.speed.match_store [--players N] [--matches N] [--repeats N] [--json]

The shape is the hardest for sums that are stored beside the matches: every two players meet, so there are almost
half as many pairs as matches. Each player is one Elo point better than the one before, as the snapshots of a run might
be, and wins or loses one or two. The matches are added in batches of 1,024, as a run of that many matches an
iteration adds them. Queries run on a store that was just opened, though its file is in the system's cache.
``standings`` is the whole command, in its own process; ``draw`` draws one batch as a league does.

Expected before the first measurement: 50,000 matches added a second; 50 bytes a match; the sums in about a second.
"""

from __future__ import annotations

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
from benchmarks.speed.timing import Figures, clock_seconds, print_figures, speed_parser, spread
from games.common.files import atomic_write
from games.common.seeds import derive_seed
from league.config import GameConfig, RunConfig
from league.config.context import run_context
from league.config.matchmaking import MatchmakingConfig
from league.population.evaluation.tournament_plan import HEADER
from league.population.matchmaking import DrawContext, Member, MetaStrategy, draw_matches
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.results.payoffs import PayoffTable, Result
from league.population.storage.run_dir import PLAN_FILE

GAME, BATCH = "kuhn_poker", 1024
DRAWS = 5  # in each repeat: one is so short that other load on the machine shows
TURNS = tuple(Turn(seat, role, "", "", (), "", None, 0.0, None) for seat, role in enumerate(("first", "second")))


def episodes(players: int, matches: int) -> Iterator[Episode]:
    """Yield matches pair by pair, each deal in both seatings, and start over when all pairs have met."""
    rng = random.Random(0)
    lineups = (
        pair[::order] for pair in itertools.cycle(itertools.combinations(range(players), 2)) for order in (1, -1)
    )
    for index, (first, second) in enumerate(itertools.islice(lineups, matches)):
        players_by_seat = (snapshot(first), snapshot(second))
        request = MatchRequest(
            index, GAME, derive_seed("deal", index // 2), index, players_by_seat, (False, False), "tournament"
        )
        won = rng.random() < 1.0 / (1.0 + 10.0 ** ((second - first) / 400.0))
        gain = rng.choice((1.0, 2.0)) if won else rng.choice((-1.0, -2.0))
        yield Episode(request, TURNS, (gain, -gain), EndReason.FINISHED)


def snapshot(number: int) -> str:
    """Return a player's name."""
    return f"main-{number:06d}"


def measure(players: int, matches: int, repeats: int, folder: Path) -> Figures:
    """Return seconds by operation, and bytes a match; matches are added once."""
    draw = batch_draw(players)
    draws = [clock_seconds(draw) for _ in range(DRAWS * repeats)]
    path, adding = folder / STORE_FILE, 0.0
    stream = episodes(players, matches)
    with MatchStore(path) as store:
        while batch := list(itertools.islice(stream, BATCH)):
            start = time.perf_counter()
            store.add(batch)
            adding += time.perf_counter() - start
    write_question(players, folder)
    queries: dict[str, Callable[[], object]] = {
        "cells": _cold(path, lambda store: store.cells(GAME)),
        "pairs": _cold(path, lambda store: store.pairs(GAME)),
        "cells_and_pairs": _cold(path, lambda store: (store.cells(GAME), store.pairs(GAME))),
        "results": _cold(path, lambda store: sum(1 for _ in store.results())),
        "matches": _cold(path, lambda store: sum(1 for _ in store.matches(GAME))),
        "indices": _cold(path, lambda store: len(store.indices())),
        "standings": lambda: standings(folder),
    }
    values = {name: [clock_seconds(query) for _ in range(repeats)] for name, query in queries.items()}
    values |= {"draw": draws, "add": [adding], "bytes_per_match": [path.stat().st_size / matches]}
    return spread(values)


def _cold(path: Path, query: Callable[[MatchStore], object]) -> Callable[[], object]:
    """Return a query that opens the store first."""

    def run() -> None:
        with MatchStore(path) as store:
            query(store)

    return run


def batch_draw(players: int) -> Callable[[], object]:
    """Return a draw of one batch by six rules, among this many snapshots, all of which the learner has met."""
    names = [snapshot(number) for number in range(players)]
    table = PayoffTable(live=["main"], forgetting=0.9)
    rows = [("main", name, GAME, role) for name in names for role in ("first", "second")]
    table.apply([Result(*row, n=10, sum_return=1.0, sumsq_return=10.0, sum_score=6.0, iteration=3) for row in rows])
    members = [Member(name, "main", "main") for name in names]
    meta = MetaStrategy(dict.fromkeys(names[::10], 10.0 / players))
    rules = MatchmakingConfig(self_play=0.3, fictitious=0.2, pfsp=0.2, verification=0.1, uncertain=0.1, psro=0.1)
    context = run_context(RunConfig(games={GAME: GameConfig()}, matchmaking=rules, seed=0), Path())
    return lambda: draw_matches(
        context,
        DrawContext(GAME, ("main", "main"), members, table.pair_record, meta),
        iteration=7,
        learning=["main"],
        matches=BATCH,
        first_index=0,
    )


def write_question(players: int, folder: Path) -> None:
    """Make the folder a tournament's, so that `league standings` reads it."""
    names = [snapshot(number) for number in range(players)]
    stands_for = {name: [[[name, 1.0]]] * 2 for name in names}
    question = {"game": GAME, "players": names, "matches": 2, "seed": 0, "stands_for": stands_for}
    atomic_write(folder / PLAN_FILE, json.dumps(HEADER | question))


def standings(folder: Path) -> None:
    """Run `league standings`."""
    subprocess.run([sys.executable, "-m", "league", "standings", folder], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--players", type=int, default=1000)
    parser.add_argument("--matches", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.players, arguments.matches, arguments.repeats, Path(folder))
    print_figures(figures, "seconds", ",.3f", as_json=arguments.json)


if __name__ == "__main__":
    main()
