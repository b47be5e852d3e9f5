"""Whether the project has become slower: `make guard`, or `python -m benchmarks guard`.

    python -m benchmarks guard [PIECE ...] [--file FILE]
    python -m benchmarks guard --store [PIECE ...] --reason "why these are the ratios now" [--file FILE]

Each piece of work runs in turn with a yardstick, a fixed piece of work of the same kind in the same process. The ratio
of their shortest times is compared with the stored one: more than 15 % above it fails. Shortest times, because other
processes only ever add to one, and without the time for which a thread could run but another process had the processor;
a piece that seems slow is measured on, up to four times as long, before it fails.
``--store`` writes new ratios with the commit and the reason. A machine of another kind has ratios of its own: see
the head of ``ratios.toml``.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.guard.pieces import PIECES, Piece
from benchmarks.report.provenance import provenance
from games.common.files import atomic_write

FILE = Path(__file__).with_name("ratios.toml")
ALLOWED = 1.15  # times the stored ratio
LONGER = 4  # times as many rounds for a piece that seems slow
BLOCKS = 5  # ratios, of which the median is stored
HOPELESS = 3  # times what a piece may take, beyond which it is not measured on
HEAD = """\
# How long each piece of work takes, as a multiple of its yardstick (benchmarks/guard). `make guard` fails where a ratio
# is more than 15 % above the one here. A new one is stored with its reason:
#     python -m benchmarks guard --store PIECE --reason "what it is slower, or faster, for"
# The ratios are those of one kind of machine, named below. On a foreign machine they differ, by a tenth or more: store
# its own once, from a commit that is trusted, and give that file from then on:
#     python -m benchmarks guard --store --reason "this machine" --file ratios-here.toml
#     make guard ARGS="--file ratios-here.toml"
"""


class Stored(NamedTuple):
    """A ratio that a piece is held to."""

    ratio: float
    commit: str
    machine: str
    reason: str


def main(argv: list[str]) -> int:
    """Measure; return 0 if no piece is slower than stored, 1 if one is, 2 for a mistake in the command."""
    arguments = _parse(argv)
    import torch

    torch.set_num_threads(1)
    stored = read(arguments.file)
    names = arguments.pieces or list(PIECES)
    if missing := [] if arguments.store else [name for name in names if name not in stored]:
        print(f"{arguments.file} has no ratio of {', '.join(missing)}. Store one with --store.", file=sys.stderr)
        return 2
    slower, new, here = [], dict(stored), provenance()["machine"]["cpu"]
    for name in names:
        enough = None if arguments.store else stored[name].ratio * ALLOWED
        ratio = measured(name, enough)
        if enough is None:
            origin = provenance()
            new[name] = Stored(round(ratio, 3), str(origin["commit"]), origin["machine"]["cpu"], arguments.reason)
            print(f"{name:10}{ratio:8.3f} stored", flush=True)
            continue
        held = stored[name]
        change = ratio / held.ratio - 1
        print(f"{name:10}{ratio:8.3f}, {change:+.0%} of {held.ratio} at {held.commit}", flush=True)
        if held.machine != here:
            print(f"          not judged: it was stored on {held.machine}, and this is {here}", flush=True)
        elif ratio > enough:
            slower.append(
                f"{name} is {change:.0%} slower: {ratio:.3f} times its yardstick, and {held.ratio} at {held.commit} "
                f"({held.reason})."
            )
    if arguments.store:
        write(arguments.file, new)
    for line in slower:
        print(line, file=sys.stderr)
    if slower:
        print(
            "If it is meant, store the new ratio: python -m benchmarks guard --store PIECE --reason '...'.",
            file=sys.stderr,
        )
    return 1 if slower else 0


def measured(name: str, enough: float | None) -> float:
    """Return a piece's ratio: the median of some, or one that ends when it is ``enough``."""
    with ExitStack() as stack:
        piece = PIECES[name](stack)
        piece.run()  # imports and caches
        piece.yardstick()
        gc.collect()
        gc.freeze()  # what was imported is not searched for garbage while a piece runs
        stack.callback(gc.unfreeze)
        if enough is None:
            return statistics.median(shortest(piece, math.inf) for _ in range(BLOCKS))
        return shortest(piece, enough)


def shortest(piece: Piece, enough: float) -> float:
    """Return the ratio of the shortest times of a piece and of its yardstick, which run in turn.

    A piece that is above ``enough`` is measured on, up to ``LONGER`` times as long, unless it is hopeless.
    """
    best, yard, clock = math.inf, math.inf, piece.clock
    for number in range(1, LONGER * piece.rounds + 1):
        start = clock()
        piece.yardstick()
        middle = clock()
        piece.run()
        yard, best = min(yard, middle - start), min(best, clock() - middle)
        passes, hopeless = best <= enough * yard, best > HOPELESS * enough * yard
        if (passes and number % piece.rounds == 0) or (hopeless and number % (piece.rounds // 4) == 0):
            break
    return best / yard


def read(file: Path) -> dict[str, Stored]:
    """Return the stored ratios; none if there is no file."""
    tables: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: Stored(**table) for name, table in tables.items()}


def write(file: Path, ratios: dict[str, Stored]) -> None:
    """Write ratios, with what a reader must know before them."""
    tables = [
        "\n".join(
            [f"[{name}]", f"ratio = {one.ratio}"]
            + [f'{key} = "{_quoted(getattr(one, key))}"' for key in ("commit", "machine", "reason")]
        )
        for name, one in sorted(ratios.items())
    ]
    atomic_write(file, "\n\n".join([HEAD.rstrip(), *tables]) + "\n")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks guard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help=f"{', '.join(PIECES)} (default: all of them)")
    parser.add_argument("--store", action="store_true", help="store the ratios that are measured")
    parser.add_argument("--reason", default="", help="why; needed with --store")
    parser.add_argument("--file", type=Path, default=FILE, help="the ratios (default: benchmarks/guard/ratios.toml)")
    arguments = parser.parse_args(argv)
    if unknown := sorted(set(arguments.pieces) - set(PIECES)):
        parser.error(f"there is no piece {', '.join(unknown)}; the pieces are {', '.join(PIECES)}")
    if arguments.store and not " ".join(arguments.reason.split()):
        parser.error('--store needs --reason "..." in words: a regression that lands is a decision')
    return arguments
