"""A console for untrusted text, such as folder names, which can neither control the terminal nor be markup."""

from __future__ import annotations

from typing import Any

from rich.console import Console, RenderableType
from rich.status import Status
from rich.text import Text

from games.common.text import plain


class Terminal(Console):
    """A rich console to which every string is plain text: no markup, no emoji codes, no control characters."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False, **settings: Any) -> None:
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Return a string unchanged, in the given style."""
        return super().render_str(plain(text), **{**settings, "markup": False, "emoji": False, "highlight": False})

    def status(self, status: RenderableType, **settings: Any) -> Status:
        """Show the current activity until it ends; nothing without a terminal."""
        return super().status(Text(plain(status)) if isinstance(status, str) else status, **settings)
