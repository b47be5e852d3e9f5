"""``league board``: a run's curves in TensorBoard, until Ctrl-C."""

from __future__ import annotations

import argparse
import threading

from games.common.errors import UsageError
from games.common.text import plain
from league.monitors.metrics_log import TENSORBOARD_FOLDER, serve_tensorboard
from league.storage.run_dir import open_run


def run(arguments: argparse.Namespace) -> int:
    """Serve the run's ``tb/`` until Ctrl-C."""
    path = open_run(arguments.run).path
    if not (path / TENSORBOARD_FOLDER).is_dir():
        raise UsageError(f"{path} has no curves yet: they are written from the first iteration on.")
    try:
        address = serve_tensorboard(path, arguments.port)
    except OSError as error:
        raise UsageError(f"--port {arguments.port}: {error.strerror}. Choose another, or 0 for any free one.") from None
    try:
        print(f"TensorBoard shows {plain(str(path))} at {address}\nCtrl-C stops it.", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        print("\nTensorBoard has stopped.")
    return 0
