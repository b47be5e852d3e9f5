"""Whether the project has become slower: `make guard`, or `python -m benchmarks guard`.

    python -m benchmarks guard [PIECE ...] [--file FILE]
    python -m benchmarks guard --store [PIECE ...] --reason "why these are the figures now" [--file FILE]

What does not depend on the machine is counted: the function calls of each piece of work, the most memory of its Python
objects at once, or the modules that a command imports. A count more than 15 % above the stored one fails. The clock
does what counts cannot, such as seeing a wait or a slower product: each piece runs in turn with a yardstick, a fixed
piece of work of the same kind in the same process, and fails where the ratio of their shortest times is more than three
times the stored one. Less would fail on another processor, or beside other work: how fast the project is stands in
benchmarks/results. ``--store`` writes new figures with the commit and the reason.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.guard.counts import of_a_run
from benchmarks.guard.pieces import PIECES, Piece
from benchmarks.report.provenance import provenance
from games.common.files import atomic_write

FILE = Path(__file__).with_name("figures.toml")
COUNT, TIME = 1.15, 3.0  # how many times the stored figure a count, and a time, may be
SPARE = 1  # of any count, beyond that
LONGER = 4  # times as many rounds for a piece that seems slow
HOPELESS = 2  # times what a time may be, beyond which it is not measured on
BLOCKS = 5  # ratios of times, of which the median is stored
HEAD = """\
# What each piece of work (benchmarks/guard) takes: counts, and its time as a multiple of its yardstick's. `make guard`
# fails where a count is more than 15 % above the one here, or a time more than three times it. New ones are
# stored with their reason:
#     python -m benchmarks guard --store PIECE --reason "what it takes more, or less, for"
# Counts depend a little on the versions of Python and of the libraries, and times on the machine.
"""


class Stored(NamedTuple):
    """The figures that a piece is held to."""

    figures: Mapping[str, float]  # "time" and counts, by name
    commit: str
    reason: str


def main(argv: list[str]) -> int:
    """Measure; return 0 if no piece takes more than stored, 1 if one does, 2 for a mistake in the command."""
    arguments = _parse(argv)
    import torch

    torch.set_num_threads(1)
    stored = read(arguments.file)
    names = arguments.pieces or list(PIECES)
    if arguments.store:
        new = dict(stored)
        for name in names:
            figures = measured(name, None)
            new[name] = Stored(figures, str(provenance()["commit"]), " ".join(arguments.reason.split()))
            print(f"{name:10}{_told(figures)} stored", flush=True)
        write(arguments.file, new)
        return 0
    if missing := [name for name in names if name not in stored]:
        print(f"{arguments.file} has no figures of {', '.join(missing)}. Store them with --store.", file=sys.stderr)
        return 2
    failures: list[str] = []
    for name in names:
        held = stored[name]
        figures = measured(name, held.figures)
        print(f"{name:10}{_told(figures)}; stored at {held.commit}: {_told(held.figures)}", flush=True)
        failures += [_failure(name, *one, held) for one in figures.items() if exceeds(*one, held)]
    for line in failures:
        print(line, file=sys.stderr)
    if failures:
        print(
            "If it is meant, store the new figures: python -m benchmarks guard --store PIECE --reason '...'.",
            file=sys.stderr,
        )
    return 1 if failures else 0


def exceeds(figure: str, value: float, stored: Stored) -> bool:
    """Return whether a figure is above what its stored one allows; of a figure that is not stored everything is."""
    held = stored.figures.get(figure, 0.0)
    return value > (TIME * held if figure == "time" else COUNT * held + SPARE)


def measured(name: str, held: Mapping[str, float] | None) -> dict[str, float]:
    """Return a piece's figures; with None, to be stored, its time is the median of several."""
    with ExitStack() as stack:
        piece = PIECES[name](stack)
        piece.run()  # imports and caches
        piece.yardstick()
        counts = of_a_run(piece.run) if piece.counts is None else piece.counts()
        gc.collect()
        gc.freeze()  # what was imported is not searched for garbage while a piece runs
        stack.callback(gc.unfreeze)
        if held is None:
            time = statistics.median(shortest(piece, math.inf) for _ in range(BLOCKS))
        else:
            time = shortest(piece, TIME * held.get("time", 0.0))
        return {**counts, "time": round(time, 3)}


def shortest(piece: Piece, enough: float) -> float:
    """Return the ratio of the shortest times of a piece and of its yardstick, which run in turn.

    Shortest times, because other processes only ever add to one. A piece that is above ``enough`` is measured on, up to
    ``LONGER`` times as long, unless it is hopeless.
    """
    best, yard, clock = math.inf, math.inf, piece.clock
    for number in range(1, LONGER * piece.rounds + 1):
        start = clock()
        piece.yardstick()
        middle = clock()
        piece.run()
        yard, best = min(yard, middle - start), min(best, clock() - middle)
        if number >= piece.rounds and not enough * yard < best <= HOPELESS * enough * yard:
            break
    return best / yard


def read(file: Path) -> dict[str, Stored]:
    """Return the stored figures by piece; none if there is no file."""
    tables: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: Stored(table, table.pop("commit"), table.pop("reason")) for name, table in tables.items()}


def write(file: Path, stored: Mapping[str, Stored]) -> None:
    """Write figures, with what a reader must know before them."""
    tables = [
        "\n".join(
            [f"[{name}]", *(f"{figure} = {value}" for figure, value in one.figures.items())]
            + [f'{key} = "{_quoted(getattr(one, key))}"' for key in ("commit", "reason")]
        )
        for name, one in sorted(stored.items())
    ]
    atomic_write(file, "\n\n".join([HEAD.rstrip(), *tables]) + "\n")


def _failure(name: str, figure: str, value: float, stored: Stored) -> str:
    held = stored.figures.get(figure)
    if held is None:
        return f"{name}: no figure of its {figure}, {value}, is stored."
    what = "times its yardstick" if figure == "time" else {"memory": "KiB of memory"}.get(figure, figure)
    return f"{name} takes {value / held - 1:.0%} more: {value} {what}, and {held} at {stored.commit} ({stored.reason})."


def _told(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{figure} {value}" for figure, value in figures.items())


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks guard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help=f"{', '.join(PIECES)} (default: all of them)")
    parser.add_argument("--store", action="store_true", help="store the figures that are measured")
    parser.add_argument("--reason", default="", help="why; needed with --store")
    parser.add_argument("--file", type=Path, default=FILE, help="the figures (default: benchmarks/guard/figures.toml)")
    arguments = parser.parse_args(argv)
    if unknown := sorted(set(arguments.pieces) - set(PIECES)):
        parser.error(f"there is no piece {', '.join(unknown)}; the pieces are {', '.join(PIECES)}")
    if arguments.store and not " ".join(arguments.reason.split()):
        parser.error('--store needs --reason "..." in words: a regression that lands is a decision')
    return arguments
