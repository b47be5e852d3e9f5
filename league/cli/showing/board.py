"""``league board``: runs side by side in TensorBoard, until Ctrl-C."""

from __future__ import annotations

import argparse
import threading

from games.common.errors import UsageError
from games.common.text import plain
from league.cli.parser import Parser, whole_number

EXAMPLES = ("runs/pocket", "runs/pocket runs/pocket-2 --port 0", "sweeps/rates")


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("runs", metavar="RUN|SWEEP", nargs="+", help="runs, or folders of `league sweep`")
    parser.add_argument(
        "--port", type=whole_number(0, 65_535), default=6006, metavar="N", help="0 takes any free port (default: 6006)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve the runs' ``tb/`` until Ctrl-C."""
    from league.population.storage.run_dir import runs_in
    from league.training.board.metrics_log import TENSORBOARD_FOLDER
    from league.training.board.server import serve_tensorboard

    paths = [run.path for name in arguments.runs for run in runs_in(name)]
    for path in paths:
        if not (path / TENSORBOARD_FOLDER).is_dir():
            raise UsageError(f"{path} has no curves yet: they are written after each iteration.")
        if "," in str(path.resolve()):
            raise UsageError(f"{path} has a comma in its path, which TensorBoard reads as two folders. Rename it.")
    try:
        address = serve_tensorboard(paths, arguments.port)
    except OSError as error:
        raise UsageError(f"--port {arguments.port}: {error.strerror}. Choose another, or 0 for any free one.") from None
    try:
        print(f"TensorBoard shows {', '.join(plain(str(path)) for path in paths)} at {address}", flush=True)
        print("Ctrl-C stops it.", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        print("\nTensorBoard has stopped.")
    return 0
