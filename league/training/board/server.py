"""TensorBoard as ``league board`` starts it: on several runs, opened at the pinned cards."""

from __future__ import annotations

import json
import re
import socket
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from games.aliases import short_metric
from league.config import CONFIG_FILE
from league.training.board.metrics_log import TENSORBOARD_FOLDER, figures_of, read_metrics
from league.training.board.observers import pinned_figures, possible_figures
from league.training.board.questions import ALWAYS_PINNED, pinned_metrics
from league.training.board.settings import NOT_COMPARED, flat, rank

CARD = 480  # pixels, at least: two cards stand beside each other in a window of 1280, and figures are read in them
RELOADS_AFTER = 31.0  # seconds: TensorBoard takes nothing below 30
# The display for a person who has never chosen another: whole curves, room for the cards, and news as they come.
SETTINGS = {
    "ignoreOutliers": False,
    "timeSeriesSettingsPaneOpened": False,
    "timeSeriesCardMinWidth": CARD,
    "autoReload": True,
    "autoReloadPeriodInMs": int(RELOADS_AFTER * 1000),
}
PREFERENCES = {"_ignoreYOutliers": "false", "_tb_global_settings": json.dumps(SETTINGS)}
HPARAMS = "/data/plugin/hparams/experiment"
MOST_DRAWINGS = 100  # of a figure, on its slider, evenly spread: TensorBoard's own number is 10
OPENING = """<!doctype html><title>TensorBoard</title><noscript>TensorBoard needs JavaScript.</noscript><script>
const preferences = %(preferences)s;
// The cards have room in a window of 1280 pixels, and the runs' names are whole in one of 800.
preferences._tb_global_settings = JSON.stringify(
  {...JSON.parse(preferences._tb_global_settings), sideBarWidthInPercent: innerWidth < 1200 ? 25 : 14,
    ...(innerWidth < 800 ? {timeSeriesCardMinWidth: 335} : {})});  // on a telephone the least that there is
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
    samples = {"images": MOST_DRAWINGS}
    server.configure(logdir_spec=logdirs, port=port, bind_all=False, load_fast="false", samples_per_plugin=samples)
    return str(server.launch())


def run_names(runs: Sequence[Path]) -> list[str]:
    """Return TensorBoard's name of each run: its folder's name, with a number where several are equal."""
    names: list[str] = []
    for path in runs:
        name = re.sub(r"[^-\w.]+", "_", path.resolve().name) or "run"
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    return names


def pinned_cards(names: Sequence[str], runs: Sequence[Path]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the cards to pin of runs by name: those of the first run's data, and those that may come later.

    TensorBoard pins a card as soon as it finds its tag.
    """
    drawn, logged = figures_of(runs[0]), pinned_metrics(read_metrics(runs[0]))
    later = [
        figure
        for game in list(_config(runs[0]).get("games", {}))[:1]
        for figure in possible_figures(game)
        if figure not in drawn
    ]
    figures: list[list[dict[str, Any]]] = [
        [
            {"plugin": "images", "tag": figure, "runId": f"defaultExperimentId/{name}/.", "sample": 0}
            for figure in chosen
            for name in names
        ]
        for chosen in (pinned_figures(drawn), later)
    ]
    curves = [
        [{"plugin": "scalars", "tag": curve} for curve in chosen]
        for chosen in (map(short_metric, logged), [curve for curve in ALWAYS_PINNED if curve not in logged])
    ]
    return figures[0] + curves[0], figures[1] + curves[1]


def _config(run: Path) -> dict[str, Any]:
    """Return a run's configuration as it is written, empty where there is none to read."""
    try:
        return tomllib.loads((run / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _differing(runs: Sequence[Path]) -> set[str]:
    """Return the settings in which runs differ, except those of the display."""
    settings = [dict(flat(_config(run))) for run in runs]
    names = {name for each in settings for name in each if not re.match(NOT_COMPARED, name)}
    return {name for name in names if any(each.get(name) != settings[0].get(name) for each in settings)}


def _with_settings_in_order(
    app: Callable[..., Any], environ: dict[str, Any], start_response: Callable[..., Any], differing: set[str]
) -> Any:
    """Answer what HParams asks first: settings that differ between the runs lead, in the order of ``COMPARED``.

    TensorBoard itself goes by what the first run's file says, and by the alphabet.
    """
    from werkzeug.wrappers import Response

    response = Response.from_app(app, environ | {"HTTP_ACCEPT_ENCODING": ""})
    answer = json.loads(response.get_data() or "{}")
    settings = answer.get("hparamInfos", [])
    for setting in settings if differing else ():
        setting["differs"] = setting["name"] in differing
    settings.sort(key=lambda setting: (not setting.get("differs"), *rank(setting["name"])))
    response.set_data(json.dumps(answer))
    return response(environ, start_response)


def _with_pinned_cards(app: Callable[..., Any], names: Sequence[str], runs: Sequence[Path]) -> Callable[..., Any]:
    """Return TensorBoard's WSGI application; its bare address opens at the pinned cards, unsmoothed."""

    def opened(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["PATH_INFO"].endswith(HPARAMS):
            return _with_settings_in_order(app, environ, start_response, _differing(runs))
        if environ["PATH_INFO"] != "/" or environ.get("QUERY_STRING"):
            return app(environ, start_response)
        cards, later = pinned_cards(names, runs)
        _wait_until_loaded(app, {card["tag"] for card in cards})
        page = OPENING % {
            "preferences": json.dumps(PREFERENCES),
            "address": json.dumps(f"/?pinnedCards={quote(json.dumps(cards + later))}&smoothing=0"),
        }
        content = page.encode()
        headers = [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(content)))]
        start_response("200 OK", headers)
        return [content]

    return opened


def _wait_until_loaded(app: Callable[..., Any], tags: set[str]) -> None:
    """Wait until TensorBoard has read the tags to pin, at most ``PATIENCE``, so that they appear in their order."""
    from werkzeug.test import Client

    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        response = json.loads(Client(app).get("/data/plugin/timeseries/tags").get_data())
        loaded = set(response["images"]["tagRunSampledInfo"]).union(*response["scalars"]["runTagInfo"].values())
        if tags <= loaded:
            return
        time.sleep(0.2)
