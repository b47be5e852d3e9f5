"""How seats' words in TextArena's games are read, shown and drawn at random. Pure, and independent of the library."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from games.talk.conversation import quoted, utterance

MOST_CHARACTERS = 1000  # of what is said in a turn
_BRACKETS = re.compile(r"\[[^\[\]]+\]")
_LETTER = re.compile(r"\b[A-Za-z]\b")
_COLUMN = re.compile(r"(?<![A-Za-z])[a-h](?=\d)")  # of a board's square, as a2
_LONGEST_MOVE = 80  # characters of a move that is said without brackets
_TRIES = 300  # replies that a script draws before it gives up


class GameMessage(NamedTuple):
    """One thing that a seat reads."""

    speaker: int  # −1: the game
    text: str
    board: bool = False  # whether the next board takes its place


def read_reply(text: str, in_brackets: bool, is_legal: Callable[[str], bool]) -> str | None:
    """Return the one action that a reply says, or None.

    ``in_brackets``: the game takes moves in square brackets, and nothing else of the reply reaches anybody. A reply
    without brackets is a move as a whole; several brackets are a move together, if none of them is one alone.
    Otherwise the game is a conversation, and the action is all that is said, as one line.
    """
    line = utterance(text, MOST_CHARACTERS)
    if line is None:
        return None
    if in_brackets:
        moves = list(dict.fromkeys(_BRACKETS.findall(line)))
        if not moves:
            line = f"[{line}]" if len(line) <= _LONGEST_MOVE and not set("[]") & set(line) else ""
        elif len(moves) > 1 and any(map(is_legal, moves)):
            return None
        else:
            line = " ".join(moves)
    return line if line and is_legal(line) else None


def shown(lines: tuple[GameMessage, ...], seat: int) -> str:
    """Return what a seat reads: all its messages, of boards only the last, and the others' words quoted."""
    boards = [index for index, line in enumerate(lines) if line.board]
    parts = []
    for index, line in enumerate(lines):
        if line.speaker >= 0:
            words = quoted(utterance(line.text, len(line.text) + 1) or "")
            parts.append(f"{'You' if line.speaker == seat else f'Player {line.speaker}'}: {words}")
        elif not line.board or index == boards[-1]:
            parts.append(line.text.strip())
    return "\n".join(parts)


def sentence(error: Exception) -> str:
    """Return an error of the library's code in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def own_words(observation: str, rng: random.Random) -> Iterator[str]:
    """Yield replies at random: what the game's own words show in brackets, in any order, and simple fillings of it."""
    named = list(dict.fromkeys(_BRACKETS.findall(observation)))
    words = list(dict.fromkeys(re.findall(r"\w+", observation)))
    yield from rng.sample(named[-40:], len(named[-40:]))
    yield from _fillings(named, words, rng)


def _fillings(named: list[str], words: list[str], rng: random.Random) -> Iterator[str]:
    """Yield replies at random: what was named with other numbers and letters, numbers, words, and a sentence."""
    letters = [*_LETTER.findall(" ".join(named)), *"ABC012"]
    for _ in range(_TRIES):
        most, kind = rng.choice((3, 7, 10, 21, 101)), rng.randrange(6)
        numbers = [str(rng.randrange(most)) for _ in range(rng.randint(1, 4))]
        if kind < 3 and named:
            filled = re.sub(r"\d+", partial(_below, most, rng), rng.choice(named))
            filled = _COLUMN.sub(lambda _: rng.choice("abcdefgh"), filled)
            yield _LETTER.sub(lambda _: rng.choice(letters), filled) if kind == 2 else filled
        elif kind < 5:
            yield f"[{' '.join(numbers)}]" if kind == 3 else f"[{rng.choice(words or numbers)}]"
        else:
            yield f"I say {rng.choice(words or numbers)}."


def _below(most: int, rng: random.Random, _match: re.Match[str]) -> str:
    return str(rng.randrange(most))
