"""``league export``: a run's kept matches, for other tools or whole."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from games.common.destinations import file_to_write
from games.common.errors import UsageError
from games.common.files import atomic_write
from games.common.text import plain
from league.config.load import run_roles
from league.population.storage.exports import ReplyRow, openai_record, reply_rows, save_lines, save_matches, trl_record
from league.population.storage.run_dir import open_run
from league.population.storage.sampled_matches import load_samples, sample_files

SUFFIXES = {"jsonl": ".jsonl", "trl": ".jsonl", "openai": ".jsonl", "parquet": ".parquet"}  # by format


def run(arguments: argparse.Namespace) -> int:
    """Write the file; print what is in it. Raises UsageError for a run without kept matches."""
    run = open_run(arguments.run)
    samples = [sample for path in sample_files(run.path) for sample in load_samples(path)]
    if not samples:
        raise UsageError(f"{run.path} has kept no matches: they are kept at snapshots, episodes_kept of them.")
    name = arguments.output or f"{run.path.name}-{arguments.format}{SUFFIXES[arguments.format]}"
    path = file_to_write(name, "-o")
    if arguments.format == "jsonl":
        save_matches(path, samples)
        what = f"{len(samples)} matches, whole; `league import` reads them"
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
