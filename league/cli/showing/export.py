"""``league export``: a run's kept matches, for other tools or whole."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from games.common.destinations import file_to_write
from games.common.errors import UsageError
from games.common.files import atomic_write
from games.common.text import plain
from league.cli.parser import Parser

if TYPE_CHECKING:
    from league.population.storage.exports import ReplyRow

EXAMPLES = ("runs/pocket --format trl -o replies.jsonl", "runs/pocket -o matches.jsonl")
NOTES = """\
formats:
  jsonl    whole matches, a line each, which `league lab import` reads without loss (default)
  trl      a line for each reply: prompt and completion as TRL has them, log-probs, advantage, reward, token ids
  openai   a line for each reply: a chat of OpenAI's format for fine-tuning
  parquet  the columns of trl in a Parquet file; needs pyarrow
"""
SUFFIXES = {"jsonl": ".jsonl", "trl": ".jsonl", "openai": ".jsonl", "parquet": ".parquet"}  # by format


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--format", choices=["jsonl", "trl", "openai", "parquet"], default="jsonl", metavar="FORMAT")
    parser.add_argument("--all-seats", action="store_true", help="include replies of seats that do not learn")
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write (default: named after the run)")


def run(arguments: argparse.Namespace) -> int:
    """Write the file; print what is in it. Raises UsageError for a run without kept matches."""
    from league.config.load import run_roles
    from league.population.storage.exports import openai_record, reply_rows, save_lines, save_matches, trl_record
    from league.population.storage.run_dir import open_run
    from league.population.storage.sampled_matches import load_samples, sample_files

    run = open_run(arguments.run)
    samples = [sample for path in sample_files(run.path) for sample in load_samples(path)]
    if not samples:
        raise UsageError(f"{run.path} has kept no matches: episodes_kept of them are kept at each snapshot.")
    name = arguments.output or f"{run.path.name}-{arguments.format}{SUFFIXES[arguments.format]}"
    path = file_to_write(name, "-o")
    if arguments.format == "jsonl":
        save_matches(path, samples)
        what = f"{len(samples)} matches, whole; `league lab import` reads them"
    else:
        rows = list(reply_rows(samples, run_roles(run.config), arguments.all_seats))
        if arguments.format == "parquet":
            save_parquet(path, rows)
        else:
            save_lines(path, map({"trl": trl_record, "openai": openai_record}[arguments.format], rows))
        what = f"{len(rows)} replies of {len(samples)} matches"
    print(f"{plain(str(path))}: {what}.")
    return 0


def save_parquet(path: Path, rows: Iterable[ReplyRow]) -> None:
    """Write replies as a Parquet file, the columns those of ``trl``. Raises UsageError where pyarrow is missing."""
    from league.population.storage.exports import trl_record

    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise UsageError("--format parquet needs pyarrow. Install it: pip install 'llm-league[parquet]'.") from None
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist([trl_record(row) for row in rows]), sink)
    atomic_write(path, sink.getvalue().to_pybytes())
