"""Families of games: a name with values in braces is one game for each of them, ``hex(board_size={2..4})``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, product, zip_longest
from math import prod

from games.common.errors import UsageError
from games.registry import own_name

MOST_GAMES = 64  # of one family: each has roles, prompts and matches of its own


def family(name: str) -> list[str]:
    """Return the names that a name with values in braces stands for, in their order; another name alone.

    ``{2..4}`` is every whole number from 2 to 4, ``{2,5}`` what stands between the commas; of several braces every
    combination. Raises UsageError for braces that hold no values, and for more than ``MOST_GAMES``.
    """
    texts, values = _parts(name)
    if (count := prod(map(len, values))) > MOST_GAMES:
        raise UsageError(
            f"{name} stands for {count:,} games, and a run takes at most {MOST_GAMES} of one family. Name fewer values."
        )
    names = ["".join(chain(*zip_longest(texts, map(str, chosen), fillvalue=""))) for chosen in product(*values)]
    return list(map(own_name, names)) if values else names


def _parts(name: str) -> tuple[list[str], list[Sequence[object]]]:
    """Return the texts around the braces of a name, and the values within each."""
    pieces = re.split(r"\{([^{}]*)\}", name)
    if any(brace in text for text in pieces[::2] for brace in "{}"):
        raise UsageError(f"There is no game {name!r}: its braces do not match. A family is hex(board_size={{2..4}}).")
    return pieces[::2], [_values(name, text) for text in pieces[1::2]]


def _values(name: str, text: str) -> Sequence[object]:
    """Return the values within one pair of braces."""
    if ends := re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", text):
        values: Sequence[object] = range(int(ends[1]), int(ends[2]) + 1)
        valid = len(values) > 0
    else:
        values = text.split(",")
        valid = all(values) and len(set(values)) == len(values)
    if not valid:
        raise UsageError(
            f"There is no game {name!r}: {{{text}}} is not a list of distinct values. Write {{2..4}} or {{2,3,4}}."
        )
    return values
