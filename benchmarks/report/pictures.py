"""The pictures of the pages, of a run, as Chromium shows them: ``python -m benchmarks.report.pictures RUN``.

    league train pocket --set board.time=1
    python -m benchmarks.report.pictures runs/pocket

writes ``docs/start/board.png`` and, in ``docs/guide``, ``report.png``, ``report_strategy.png`` and ``replay.png``. It
needs Playwright, which ``make install`` has, and a Chromium. Look at the pictures before you commit them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report.provenance import ROOT
from games.common.errors import UsageError
from league.cli import main as league
from league.population.storage.run_dir import runs_in
from league.training.board.server import serve_tensorboard

GUIDE, START = ROOT / "docs" / "guide", ROOT / "docs" / "start"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SHARP = 2  # pixels of a picture for one of the page: it is read when it is enlarged
WIDTH = 1100  # of a page, in its own pixels
BOARD = (1280, 1000)  # of TensorBoard's window: two cards stand beside each other
CARDS = 4  # that are drawn
GAME = "kuhn_poker"
SIDE = 0.14  # of that width: the list of runs, which has one line and is left out
PATIENCE = 60_000  # milliseconds
READING = 15_000  # milliseconds: TensorBoard shows what it has read of a run, and reads on


@contextmanager
def _window(width: int, height: int) -> Iterator[Any]:
    """Yield a page of Playwright's in a window of this size."""
    from playwright.sync_api import sync_playwright

    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            context = browser.new_context(
                viewport={"width": width, "height": height}, device_scale_factor=SHARP, reduced_motion="reduce"
            )
            context.set_default_timeout(PATIENCE)
            yield context.new_page()
        finally:
            browser.close()


def draw_board(run: Path) -> None:
    """Draw the first cards of TensorBoard's opening page."""
    width, height = BOARD
    with _window(width, height) as page:
        page.goto(serve_tensorboard([run], 0))
        page.locator("card-view img").nth(CARDS - 1).wait_for()
        page.wait_for_timeout(READING)
        page.reload()
        page.locator("card-view img").nth(CARDS - 1).wait_for()
        page.wait_for_timeout(READING)
        left, cards = width * SIDE, page.locator("card-view")
        boxes = [cards.nth(number).bounding_box() for number in range(CARDS)]
        bottom = max(box["y"] + box["height"] for box in boxes) + 12
        clip = {"x": left, "y": 0, "width": width - left, "height": min(bottom, height)}
        page.screenshot(path=START / "board.png", clip=clip)


def draw_report(run: Path, folder: Path) -> None:
    """Draw the head of a report, and the strategy in its first game."""
    place = folder / "report.html"
    league(["report", str(run), "-o", str(place)])
    with _window(WIDTH, 760) as page:
        page.goto(place.as_uri())
        page.screenshot(path=GUIDE / "report.png")
        section, games = page.locator("#strategies"), page.locator("#strategies h3")
        box = section.bounding_box()
        bottom = games.nth(1).bounding_box()["y"] if games.count() > 1 else box["y"] + box["height"]
        clip = {"x": 0, "y": box["y"], "width": WIDTH, "height": bottom - box["y"]}
        page.screenshot(path=GUIDE / "report_strategy.png", clip=clip, full_page=True)


def draw_replay(run: Path, folder: Path) -> None:
    """Draw the last reply of the newest match of Kuhn poker that is kept: each seat sees a card of its own."""
    place = folder / "replay.html"
    league(["replay", str(run), "--html", "-o", str(place)])
    with _window(WIDTH, 560) as page:
        page.goto(place.as_uri())
        page.select_option("#chooser", label=page.locator("#chooser option", has_text=GAME).first.inner_text())
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        page.screenshot(path=GUIDE / "replay.png")


def main() -> None:
    """Draw all pictures of a run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    [run] = runs_in(parser.parse_args().run)
    try:
        import playwright  # noqa: F401 - its absence is reported before anything is drawn
    except ImportError:
        raise UsageError("Playwright is not installed: make install.") from None
    with tempfile.TemporaryDirectory() as folder:
        draw_board(run.path)
        draw_report(run.path, Path(folder))
        draw_replay(run.path, Path(folder))


if __name__ == "__main__":
    main()
