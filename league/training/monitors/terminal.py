"""A console for untrusted text, such as folder names, and how long work shows itself where there is no terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.progress import Progress, ProgressColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from games.common.text import plain

SECONDS_BETWEEN_LINES = 15.0  # without a terminal
_WIDEST = 1000  # columns of a table


class Terminal(Console):
    """A rich console to which every string is plain text: no markup, no emoji codes, no control characters."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False, **settings: Any) -> None:
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Return a string unchanged, in the given style."""
        return super().render_str(plain(text), **{**settings, "markup": False, "emoji": False, "highlight": False})

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print; a table whose columns do not wrap is as wide as it has to be, so that no name or number is cut off."""
        for table in objects:
            if isinstance(table, Table) and all(column.no_wrap for column in table.columns):
                needed = Measurement.get(self, self.options.update(max_width=_WIDEST), table).maximum
                if needed > self.width:
                    table.width, settings["soft_wrap"] = needed, True
        super().print(*objects, **settings)

    def status(self, status: RenderableType, **settings: Any) -> Status:
        """Show the current activity until it ends; nothing without a terminal."""
        return super().status(Text(plain(status)) if isinstance(status, str) else status, **settings)


class Ticker:
    """Calls a function every few seconds, from a thread of its own, between ``start`` and ``stop``."""

    def __init__(self, beat: Callable[[], None], seconds: float = SECONDS_BETWEEN_LINES) -> None:
        self._beat, self._seconds, self._stopped = beat, seconds, threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def start(self) -> None:
        """Begin; the first call is after the first pause."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; no call begins after this."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._beat()


class PipedProgress(Progress):
    """A progress bar where there is no terminal: a line every few seconds, also while no step is finished."""

    def __init__(self, console: Console, seconds: float = SECONDS_BETWEEN_LINES) -> None:
        super().__init__(console=console)
        self._ticker, self._began = Ticker(self._print_line, seconds), time.monotonic()

    def start(self) -> None:
        """Begin to print."""
        self._ticker.start()

    def stop(self) -> None:
        """Stop printing."""
        self._ticker.stop()

    def refresh(self) -> None:
        """Draw nothing: there is no terminal."""

    def _print_line(self) -> None:
        for task in self.tasks:
            count = "" if task.total is None else f": {task.completed:,.0f} of {task.total:,.0f}"
            elapsed = format_duration(time.monotonic() - self._began)
            self.console.print(f"{task.description}{count} ({elapsed} elapsed)", soft_wrap=True)


def progress_bar(*columns: ProgressColumn) -> Progress:
    """Return a progress bar on stderr, which disappears when it is done; without a terminal, one of lines."""
    console = Terminal(stderr=True)
    return Progress(*columns, console=console, transient=True) if console.is_terminal else PipedProgress(console)


def format_duration(seconds: float) -> str:
    """Format seconds as ``m:ss``, or ``h:mm:ss`` from one hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
