"""TensorBoard as ``league board`` starts it: on several runs, opened at the pinned cards."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from games.aliases import short_metric
from league.training.board.metrics_log import TENSORBOARD_FOLDER, figures_of, read_metrics
from league.training.board.observers import pinned_figures
from league.training.board.questions import pinned_metrics

# The display for a person who has never chosen another: whole curves, and room for the cards.
PREFERENCES = {
    "_ignoreYOutliers": "false",
    "_tb_global_settings": json.dumps({"ignoreOutliers": False, "timeSeriesSettingsPaneOpened": False}),
}
OPENING = """<!doctype html><title>TensorBoard</title><noscript>TensorBoard needs JavaScript.</noscript><script>
const preferences = %(preferences)s;
// Three cards stand beside each other in a window of 1280 pixels, and the runs' names are whole in one of 800.
preferences._tb_global_settings = JSON.stringify(
  {...JSON.parse(preferences._tb_global_settings), sideBarWidthInPercent: innerWidth < 1200 ? 25 : 14});
for (const [name, value] of Object.entries(preferences))
  if (localStorage.getItem(name) === null) localStorage.setItem(name, value);
location.replace(%(address)s + location.hash);
</script>
"""
PATIENCE = 60.0  # seconds until a page opens without pins, if TensorBoard has not read the events


def serve_tensorboard(runs: Sequence[Path], port: int) -> str:
    """Start TensorBoard on runs, in a thread that ends with this process, and return its address.

    It opens at the first run's pinned cards. Port 0 takes any free port. Raises OSError if the port is taken.
    """
    from tensorboard import program

    names = run_names(runs)
    logdirs = ",".join(f"{name}:{path.resolve() / TENSORBOARD_FOLDER}" for name, path in zip(names, runs, strict=True))

    if port:
        with socket.socket() as probe:  # TensorBoard would end the process if it is taken
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("localhost", port))
    server = program.TensorBoard(
        server_class=lambda app, flags: program.WerkzeugServer(_with_pinned_cards(app, names, runs), flags)
    )
    server.configure(logdir_spec=logdirs, port=port, bind_all=False, load_fast="false")
    return str(server.launch())


def run_names(runs: Sequence[Path]) -> list[str]:
    """Return TensorBoard's name of each run: its folder's name, with a number where several are equal."""
    names: list[str] = []
    for path in runs:
        name = re.sub(r"[^-\w.]+", "_", path.resolve().name) or "run"
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    return names


def _with_pinned_cards(app: Callable[..., Any], names: Sequence[str], runs: Sequence[Path]) -> Callable[..., Any]:
    """Return TensorBoard's WSGI application; its bare address opens at the pinned cards, unsmoothed."""

    def opened(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["PATH_INFO"] != "/" or environ.get("QUERY_STRING"):
            return app(environ, start_response)
        cards: list[dict[str, Any]] = [
            {"plugin": "images", "tag": figure, "runId": f"defaultExperimentId/{name}/.", "sample": 0}
            for figure in pinned_figures(figures_of(runs[0]))
            for name in names
        ]
        curves = map(short_metric, pinned_metrics(read_metrics(runs[0])))
        cards += [{"plugin": "scalars", "tag": curve} for curve in curves]
        _wait_until_loaded(app, {card["tag"] for card in cards})
        page = OPENING % {
            "preferences": json.dumps(PREFERENCES),
            "address": json.dumps(f"/?pinnedCards={quote(json.dumps(cards))}&smoothing=0"),
        }
        content = page.encode()
        headers = [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(content)))]
        start_response("200 OK", headers)
        return [content]

    return opened


def _wait_until_loaded(app: Callable[..., Any], tags: set[str]) -> None:
    """Wait until TensorBoard has read the tags to pin, at most ``PATIENCE``: it does not look for them again."""
    from werkzeug.test import Client

    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        response = json.loads(Client(app).get("/data/plugin/timeseries/tags").get_data())
        loaded = set(response["images"]["tagRunSampledInfo"]).union(*response["scalars"]["runTagInfo"].values())
        if tags <= loaded:
            return
        time.sleep(0.2)
