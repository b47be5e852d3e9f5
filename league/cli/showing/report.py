"""``league report``: one HTML page on a run, or on several beside each other."""

from __future__ import annotations

import argparse
from pathlib import Path

from league.lab.reports.pages import write_page
from league.lab.reports.report import report_page


def run(arguments: argparse.Namespace) -> int:
    """Write the page."""
    path = Path(arguments.output)
    write_page(path, report_page(arguments.runs))
    print(f"{path} reports on {', '.join(arguments.runs)}: open it in a browser.")
    return 0
