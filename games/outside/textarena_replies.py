"""The grammar of replies in some of TextArena's games, for scripts that play at random: ``textarena_replies.toml``.

A game's own words show most grammars; where they do not, the file tells it, by the name of the game's folder in the
library. In a template, braces are slots:

    {a-j} {1-10} {h,v} {S,0-9}   one of these; letters and numbers have ranges
    {2~1}                        what slot 2 holds, a letter or a number, or its neighbour at a distance of at most 1
    {row}                        one of the strings that the pattern ``find.row`` finds in what the seat reads
    {a-size} {1-size}            one of as many letters, or numbers, as the first number that ``find.size`` finds
    {{ }}                        braces

``words``: what stands outside brackets counts too, so a reply is read as a conversation's. ``all``: no other reply is
ever legal, so a match is over where none of these is. ``shared``: attributes of the environment that no match changes,
so that its copies share them; of a list of all words a copy takes longer than the move.
"""

from __future__ import annotations

import functools
import itertools
import random
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_FILE = Path(__file__).with_suffix(".toml")
_SLOT = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_NEAR = re.compile(r"(\d+)~(\d+)")
_RANGE = re.compile(r"(\d+)-(\d+)|([A-Za-z])-([A-Za-z])")
_DRAWS = 20_000  # from the templates in one position, before a script gives up


class _Slot(NamedTuple):
    """One slot of a template."""

    choices: tuple[str, ...] = ()
    near: tuple[int, int] | None = None  # the index of an earlier slot, and the distance from it
    found: str = ""  # the name of a pattern
    start: str = ""  # the first of as many letters or numbers as the pattern finds


class _Template(NamedTuple):
    """A reply with slots: ``texts[0] slots[0] texts[1] … texts[-1]``."""

    texts: tuple[str, ...]
    slots: tuple[_Slot, ...]


class Replies(NamedTuple):
    """What a game's replies look like."""

    templates: tuple[_Template, ...]
    patterns: Mapping[str, re.Pattern[str]]
    words: bool  # whether what stands outside brackets counts
    complete: bool  # whether no other reply is ever legal
    shared: frozenset[str]  # attributes of the environment that no match changes

    def drawn(self, observation: str, rng: random.Random) -> Iterator[str]:
        """Yield replies at random, none of them twice."""
        found, seen = self._found(observation), set[str]()
        for _ in range(_DRAWS):
            template, held = rng.choice(self.templates), list[str]()
            for slot in template.slots:
                if not (choices := _choices(slot, held, found)):
                    break
                held.append(rng.choice(choices))
            else:
                reply = _filled(template, held)
                if reply not in seen:
                    seen.add(reply)
                    yield reply

    def every(self, observation: str) -> Iterator[str]:
        """Yield all replies, in the templates' order."""
        found = self._found(observation)
        for template in self.templates:
            for held in _fillings(template.slots, [], found):
                yield _filled(template, held)

    def _found(self, observation: str) -> dict[str, tuple[str, ...]]:
        return {name: tuple(dict.fromkeys(sign.findall(observation))) for name, sign in self.patterns.items()}


def replies_of(entry_point: str) -> Replies | None:
    """Return the grammar of an entry point's game, ``textarena.envs.NAME.…``, if the file describes it."""
    return _read().get((*entry_point.split("."), "", "")[2])


@functools.cache
def _read() -> dict[str, Replies]:
    return {name: read_replies(table) for name, table in tomllib.loads(_FILE.read_text("utf-8")).items()}


def read_replies(table: Mapping[str, Any]) -> Replies:
    """Return a table of the file as replies. Raises ValueError for a slot that says nothing."""
    patterns = {name: re.compile(pattern) for name, pattern in table.get("find", {}).items()}
    templates = tuple(_template(text, patterns) for text in table["replies"])
    shared = frozenset(table.get("shared", ()))
    return Replies(templates, patterns, bool(table.get("words")), bool(table.get("all")), shared)


def _template(text: str, patterns: Mapping[str, object]) -> _Template:
    texts, slots, start = [""], list[_Slot](), 0
    for match in _SLOT.finditer(text):
        texts[-1] += text[start : match.start()]
        start = match.end()
        if match[1] is None:
            texts[-1] += match[0][0]  # a brace
        else:
            slots.append(_slot(match[1], len(slots), patterns))
            texts.append("")
    texts[-1] += text[start:]
    return _Template(tuple(texts), tuple(slots))


def _slot(inside: str, before: int, patterns: Mapping[str, object]) -> _Slot:
    start, _, name = inside.rpartition("-")
    if name in patterns:
        return _Slot(found=name, start=start)
    if near := _NEAR.fullmatch(inside):
        if not 1 <= int(near[1]) <= before:
            raise ValueError(f"{{{inside}}} should name one of the {before} slots before it, counted from 1.")
        return _Slot(near=(int(near[1]) - 1, int(near[2])))
    return _Slot(tuple(itertools.chain.from_iterable(map(_range, inside.split(",")))))


def _range(item: str) -> list[str]:
    ends = _RANGE.fullmatch(item)
    if ends is None:
        return [item]
    if ends[1]:
        return [str(number) for number in range(int(ends[1]), int(ends[2]) + 1)]
    return [chr(code) for code in range(ord(ends[3]), ord(ends[4]) + 1)]


def _choices(slot: _Slot, held: list[str], found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if slot.found:
        strings = found[slot.found]
        if not slot.start or not strings:
            return strings
        first, many = slot.start, range(int(strings[0]))
        return tuple(str(int(first) + by) if first.isdigit() else chr(ord(first) + by) for by in many)
    if slot.near is None:
        return slot.choices
    value, distance = held[slot.near[0]], slot.near[1]
    shifts = range(-distance, distance + 1)
    return tuple(str(int(value) + by) if value.isdigit() else chr(ord(value) + by) for by in shifts)


def _fillings(slots: tuple[_Slot, ...], held: list[str], found: Mapping[str, tuple[str, ...]]) -> Iterator[list[str]]:
    if len(held) == len(slots):
        yield held
    else:
        for choice in _choices(slots[len(held)], held, found):
            yield from _fillings(slots, [*held, choice], found)


def _filled(template: _Template, held: list[str]) -> str:
    return "".join(itertools.chain.from_iterable(zip(template.texts, [*held, ""], strict=True)))
