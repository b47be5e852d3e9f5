"""Pages in a real Chromium: what a person would see of them, and that the browser had nothing to complain about."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
REQUIRED = "LEAGUE_BROWSER"  # "required": a missing browser fails the tests instead of skipping them, as in CI
WIDE, NARROW = 1280, 800  # pixels
PATIENCE = 60_000  # milliseconds: a browser on a busy machine


class Chromium:
    """A headless Chromium. Use ``open_chromium``."""

    def __init__(self, browser) -> None:
        self._browser = browser

    @contextmanager
    def open(self, place: Path | str, width: int = WIDE, dark: bool = False, offline: bool = False) -> Iterator:
        """Open a file or an address, and yield Playwright's page.

        On leaving, fails on anything that the page wrote to the console as an error, on exceptions in it, and on
        requests that got no answer; with ``offline`` also on any request to a network. A request that the page itself
        gave up, as when it shows another of its views meanwhile, lacks no answer.
        """
        address = place.resolve().as_uri() if isinstance(place, Path) else place
        context = self._browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
        )
        context.set_default_timeout(PATIENCE)
        complaints: list[str] = []
        try:
            page = context.new_page()
            page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("requestfailed", lambda request: complaints.extend(_without_answer(request)))
            if offline:
                page.on("request", lambda request: complaints.extend(_over_a_network(request.url)))
            page.goto(address)
            yield page
            # What the page was still loading when the test had seen enough is no complaint about it.
            told = list(complaints)
        finally:
            context.close()
        assert told == [], f"Chromium complains about {address}: {told}"


def _without_answer(request) -> list[str]:
    return [] if "ERR_ABORTED" in request.failure else [f"no answer: {request.url} {request.failure}"]


def _over_a_network(address: str) -> list[str]:
    return [] if address.startswith(("file:", "data:", "blob:")) else [f"asks a network: {address}"]


def screenshot(page, path: Path, whole: bool = True) -> Path:
    """Write a PNG of the page, whole or what fits the window, and return its path."""
    page.screenshot(path=path, full_page=whole)
    return path


def sideways_overflow(page) -> int:
    """Return by how many pixels the page is wider than its window; a person would have to scroll sideways."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@contextmanager
def open_chromium() -> Iterator[Chromium]:
    """Start Chromium; skip the test if there is none, or fail where ``LEAGUE_BROWSER`` says that it is required.

    Playwright's loop runs in this thread meanwhile, so that ``asyncio.run`` cannot be called: keep it a module long.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _do_without("Playwright is not installed: make install")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        if path is None and not Path(playwright.chromium.executable_path).exists():
            _do_without("there is no Chromium: apt-get install chromium, or playwright install chromium")
        # Chromium's sandbox refuses to run as root, as in a container.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield Chromium(browser)
        finally:
            browser.close()


def _do_without(reason: str) -> None:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(reason)
    pytest.skip(reason)
