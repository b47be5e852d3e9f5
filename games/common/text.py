"""Makes untrusted text, such as folder names and model replies, safe to print to a terminal."""

from __future__ import annotations

import unicodedata

_UNSAFE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # Unicode categories: controls, directions of writing, lone surrogates


def plain(text: str) -> str:
    r"""Return a text whose control characters are shown as escapes (``\x1b``), so that they cannot act on a terminal.

    New lines and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(
        letter.encode("unicode_escape").decode()
        if letter not in "\n\t" and unicodedata.category(letter) in _UNSAFE
        else letter
        for letter in text
    )
