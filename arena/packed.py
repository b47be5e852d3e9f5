"""How traces and other records of many numbers travel between processes: packed, and equal to the last bit.

Tuples of numbers are pickled number by number, and a long reply has thousands. Packed, a token id takes two bytes, or
four where one is large, and a log-prob four where all are single precision, as what an engine computes in is, or eight.
"""

from __future__ import annotations

import copyreg
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from arena.records import TokenTrace

SHORT = 32  # numbers: shorter tuples travel as they are, and equal ones that are one object travel once


def pack(numbers: tuple[Any, ...]) -> Any:
    """Return token ids, or log-probs, as bytes behind their type's letter; a short tuple as it is."""
    if len(numbers) < SHORT:
        return numbers
    for letter in "fd" if isinstance(numbers[0], float) else "Hi":
        with suppress(OverflowError):
            packed = array(letter, numbers)
            if letter != "f" or tuple(packed) == numbers:
                return letter.encode() + packed.tobytes()
    return numbers


def unpack(packed: Any) -> tuple[Any, ...]:
    """Return what ``pack`` was given."""
    return tuple(array(chr(packed[0]), packed[1:])) if isinstance(packed, bytes) else packed


def travels_packed(record: type[Any], *fields: str) -> None:
    """Let a class of named tuples be pickled with these fields packed, wherever that happens."""
    places = [record._fields.index(field) for field in fields]

    def reduced(instance: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        values = list(instance)
        for place in places:
            values[place] = pack(values[place])
        return _unpacked, (record, places, values)

    copyreg.pickle(record, reduced)


def _unpacked(record: Any, places: Sequence[int], values: list[Any]) -> Any:
    for place in places:
        values[place] = unpack(values[place])
    return record(*values)


travels_packed(TokenTrace, "prompt_ids", "reply_ids", "logprobs")
