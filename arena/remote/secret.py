"""A key that must never appear in a reply, an error or a transcript. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

MASK = "[key]"
MIN_SECRET = 8  # characters; a shorter key, such as EMPTY for a server that takes any key, may be a word of a reply
_BACKSLASHES = 15  # of an escaped letter: this many has JSON within JSON within JSON within JSON


class Secret:
    """A key, and the pattern of all ways in which a text may spell it."""

    def __init__(self, key: str) -> None:
        """Take a key of ASCII characters; "": there is none."""
        spellings = f"{re.escape(key)}|{''.join(_spellings(key))}"
        self._pattern = re.compile(spellings) if len(key) >= MIN_SECRET else None

    def mask(self, text: str) -> str:
        r"""Return a text with ``[key]`` wherever the key stands in it, be it escaped as JSON, a URL or HTML has it.

        A server can so hide no letter of it: ``sk-1`` is also ``sk\u002d1``, ``sk%2D1`` and ``sk&#45;1``.
        """
        return text if self._pattern is None else self._pattern.sub(MASK, text)


def _spellings(key: str) -> Iterator[str]:
    """Yield the pattern of each letter.

    Repetitions are bounded and groups are atomic, so that no text of a server can make a search long.
    """
    for letter in key:
        code = ord(letter)
        json_escape = rf"\\{{1,{_BACKSLASHES}}}u(?i:{code:04x})"
        url_escape = rf"%(?i:{code:02x})"
        html_escape = rf"&\#(?:0{{0,6}}{code}|(?i:x0{{0,6}}{code:x}));|{re.escape(html.escape(letter))}"
        plain = rf"\\{{0,{_BACKSLASHES}}}{re.escape(letter)}"
        yield f"(?>{json_escape}|{url_escape}|{html_escape}|{plain})"
