"""``league lab import``: whole matches that ``league export`` wrote, as files that ``league replay`` shows."""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path

from games.common.destinations import folder_to_fill
from games.common.errors import UsageError
from games.common.text import plain
from league.cli.parser import Parser

EXAMPLES = ("matches.jsonl -o imported",)


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("source", metavar="FILE", help="a file of `league export --format jsonl`")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write the matches to")


def run(arguments: argparse.Namespace) -> int:
    """Write the matches of each iteration into a folder; print where they are."""
    from league.population.storage.exports import load_matches
    from league.population.storage.sampled_matches import sample_files, save_samples

    samples = load_matches(Path(arguments.source).expanduser())
    folder = folder_to_fill(arguments.output, "-o")
    if sample_files(folder):
        raise UsageError(f"{folder} has matches already. Choose another -o.")
    for iteration, matches in groupby(sorted(samples, key=lambda s: s.iteration or 0), key=lambda s: s.iteration or 0):
        save_samples(folder, iteration, list(matches))
    files = sample_files(folder)
    print(f"{len(samples)} matches in {len(files)} files. To read one:")
    print(f"  league replay {plain(str(files[-1]))}" if files else "  there is none")
    return 0
