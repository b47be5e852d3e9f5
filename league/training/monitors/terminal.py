"""A console for untrusted text, such as folder names, which can neither control the terminal nor be markup."""

from __future__ import annotations

from typing import Any

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.status import Status
from rich.table import Table
from rich.text import Text

from games.common.text import plain

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
