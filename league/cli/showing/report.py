"""``league report``: one HTML page on a run, or on several runs compared."""

from __future__ import annotations

import argparse
from pathlib import Path

from league.cli.parser import Parser

EXAMPLES = ("runs/pocket -o report.html", "runs/pocket runs/pocket-2 -o both.html", "sweeps/rates -o rates.html")


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("runs", nargs="+", metavar="RUN|SWEEP", help="runs, or folders of `league sweep`")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="file to write")


def run(arguments: argparse.Namespace) -> int:
    """Write the page."""
    from league.lab.reports.pages import write_page
    from league.lab.reports.report import report_page
    from league.population.storage.run_dir import is_sweep, runs_in

    path = Path(arguments.output)
    runs = []
    for name in arguments.runs:
        runs += [str(run.path) for run in runs_in(name)] if is_sweep(name) else [name]
    write_page(path, report_page(runs))
    print(f"{path} reports on {', '.join(arguments.runs)}: open it in a browser.")
    return 0
