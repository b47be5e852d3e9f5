"""Which of TextArena's games are games here: one name of each entry point, put to ``games.conformance``.

    python -m benchmarks.simulations.textarena_entries [--json] [NAME ...]

Needs the package textarena (``make bench`` installs it into .venv-bench). A game that takes longer than ``LIMIT``
seconds of the processor is checked again in matches of ``SHORT`` turns. One whose code breaks on a reply that is as
its grammar says does not pass, though the border refuses that reply: it may be the one that wins.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from typing import Any

from games.common.errors import UsageError
from games.conformance import faults, random_action
from games.outside.textarena_game import TextArenaGame, textarena_names
from games.registry import make_game

LIMIT = 20.0  # seconds of the processor for a game
WORKERS = 4  # processes, each with one game at a time
SHORT = 40  # turns of the matches in which a game is checked that takes longer
TRIED = 20  # replies of a game's grammar a turn, on which its code may break
PASSES, NOT_BY_LOT, NOT = "passes, mended", "plays; not checked to the end", "not"
_REASONS = {  # by what the library's or our sentence says
    "API key": "needs a language model behind a server as its judge",
    "SyntaxError": "its source needs a newer Python (3.12)",
    "FileNotFoundError": "needs files that its package does not bring",
    "ModuleNotFoundError": "needs a module that its package does not bring",
    "LookupError": "needs word lists that NLTK downloads",
    "by lot none was legal": "no legal reply was found by lot in its own words, so no match of it was finished",
    "seconds of the processor": f"took longer than {LIMIT:g} seconds to check",
}


def entry(name: str) -> dict[str, Any]:
    """Return a game's row: name, seats, kind of replies, verdict and remarks."""
    row: dict[str, Any] = {"game": name, "seats": None, "replies": "", "verdict": NOT, "remarks": ""}
    try:
        game = _made(name)
        row["seats"], row["replies"] = game.spec.seats, "moves" if game.in_brackets else "words"
        try:
            row["verdict"], remarks = _checked(game)
        except _TooLong:
            row["verdict"], remarks = _checked(_made(f"{name}(longest={SHORT})"))
            remarks = [*remarks, f"checked in its first {SHORT} turns: whole matches take long"]
    except UsageError as error:
        remarks = [str(error)]
    except _TooLong as error:
        remarks, row["verdict"] = [str(error)], NOT_BY_LOT
    row["remarks"] = "; ".join(dict.fromkeys(map(_shortened, remarks)))
    return row


def _made(name: str) -> TextArenaGame:
    game = make_game(f"textarena:{name}")
    assert isinstance(game, TextArenaGame)
    return game


def _checked(game: TextArenaGame) -> tuple[str, list[str]]:
    """Return the verdict and remarks. Raises _TooLong after ``LIMIT`` seconds."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        if broken := _breaks(game):
            return NOT, [f"its own code breaks on its moves: {broken}"]
        found = faults(lambda: make_game(game.spec.name), seeds=range(1), outward=False)
        if found:
            return NOT_BY_LOT if all("by lot none" in fault for fault in found) else NOT, found
        return PASSES, _remarks(game)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def _breaks(game: TextArenaGame) -> str:
    """Return what the library's code raises on replies of its own grammar in a match at random, or nothing."""
    rng = random.Random(0)
    game.reset(0)
    while game.to_act() is not None:
        if broken := game.breaks(rng, TRIED):
            return broken
        try:
            game.apply(random_action(game, rng))
        except UsageError:  # no reply at random is legal: the checks will tell
            break
    return ""


def _remarks(game: TextArenaGame) -> list[str]:
    """Return what else was mended in a match at random, beside the generator and the wrappers, which are all games'."""
    rng, turns = random.Random(0), 0
    game.reset(0)
    while game.to_act() is not None:
        game.apply(random_action(game, rng))
        turns += 1
    told = ["its raw replies went to others"] if game.others_hear else []
    cut = turns == game.spec.max_turns > SHORT
    return told + (["cut off: it did not end by itself"] if cut else [])


def _shortened(remark: str) -> str:
    return next((words for sign, words in _REASONS.items() if sign in remark), remark[:160])


def entry_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table in Markdown, after how many there are of each verdict."""
    counts = [f"{sum(row['verdict'] == verdict for row in rows)} {verdict}" for verdict in (PASSES, NOT_BY_LOT, NOT)]
    lines = [f"Of {len(rows)} entry points: {'; '.join(counts)}.", ""]
    lines += ["| game | seats | replies | verdict | remarks |", "| --- | ---: | --- | --- | --- |"]
    return lines + [
        f"| {row['game']} | {row['seats'] or '–'} | {row['replies'] or '–'} | {row['verdict']} | {row['remarks']} |"
        for row in rows
    ]


class _TooLong(BaseException):
    """Of no kind that a game's own code, or the check of it, would catch."""


def _too_long(*_: object) -> None:
    raise _TooLong(f"more than {LIMIT:g} seconds of the processor")


def main() -> None:
    """Check and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="games, as TextArena calls them (default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    names = arguments.names or [*textarena_names().values()]
    with get_context("spawn").Pool(min(WORKERS, len(names)), signal.signal, (signal.SIGVTALRM, _too_long)) as pool:
        rows = []
        for row in pool.imap(entry, names):
            print(f"{row['game']}: {row['verdict']}. {row['remarks']}", file=sys.stderr, flush=True)
            rows.append(row)
    print(json.dumps({"entries": rows}) if arguments.json else "\n".join(entry_lines(rows)))


if __name__ == "__main__":
    main()
