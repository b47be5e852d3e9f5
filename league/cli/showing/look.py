"""``league look``: go from a curve to the tokens behind it, on a locally served page or in one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from games.common.errors import UsageError
from games.common.text import plain
from league.cli.parser import Parser, whole_number

EXAMPLES = ("runs/pocket", "runs/pocket --port 0", "runs/pocket -o look.html")
NOTES = """The page shows a run while it trains and afterwards: curves, iterations, matches turn by turn with their
tokens, who beats whom, snapshots and their strategies. It is served on this machine only, at an address with a new
token each time. With -o it is one file that needs no server; what loads weights (entropy, ratio, playing against a
snapshot) needs the server."""


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("run", metavar="RUN", help="a run, in training or finished")
    parser.add_argument("-o", "--output", metavar="FILE", help="write one HTML file instead of serving")
    parser.add_argument(
        "--port", type=whole_number(0, 65_535), default=0, metavar="N", help="port to serve on (default: any free one)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, or write it."""
    from league.lab.look.run_files import RunFiles
    from league.population.storage.run_dir import open_run

    run = open_run(arguments.run)
    files = RunFiles(run.path, arguments.run)
    if arguments.output:
        from league.lab.look.one_file import look_page
        from league.lab.reports.pages import write_page

        write_page(Path(arguments.output), look_page(files))
        print(f"{arguments.output} shows {plain(arguments.run)}: open it in a browser.")
        return 0
    return _serve(files, arguments.port)


def _serve(files: object, port: int) -> int:
    from league.lab.look.server import LookServer

    try:
        server = LookServer(files, port)  # type: ignore[arg-type]
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}. Choose another, or 0 for any free one.") from None
    with server:
        print(f"{server.address} shows the run. Ctrl-C stops it.", flush=True)
        try:
            server.wait()
        except KeyboardInterrupt:
            print("\nThe page is closed.")
    return 0
