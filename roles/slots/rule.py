"""What fills a slot of a card: a rule sees the seat's past, may have a text written first, and returns the slot's text.

A rule is pure. A text that it wants is asked for as a turn of its own before the seat's, which is recorded and trained
like any other; ``Turn.tool`` then is the slot's name, and no move of the game is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import Field

from games.abilities import TellsPast
from games.common.errors import UsageError
from games.common.registry import Entry
from games.common.section import Positive, Section
from games.spec import Game

NAMES = ("earlier", "notes", "hint", "plan")  # the slots that a card's prompt may have
MOST_CHARACTERS = 200  # of a text that is written, unless a rule's settings say otherwise


class SlotText(NamedTuple):
    """A text that was written for a slot in this match."""

    text: str
    seen: int  # entries of the seat's past that it was written after
    attempt: int  # the attempt of a match with several in which it was written, from 1


class Sight(NamedTuple):
    """What a rule sees: one slot of one seat, before the seat's turn or after the last."""

    game: Game
    seat: int
    past: tuple[str, ...]  # what the seat was shown of earlier, oldest first; () where the game does not tell it apart
    written: tuple[SlotText, ...] = ()  # for this slot, in this match
    given: str = ""  # what the match was given for the slot when it was drawn (``MatchRequest.given``)
    trained: bool = False  # whether the seat learns from this match
    over: bool = False  # whether the match is

    @property
    def attempt(self) -> int:
        """The attempt that the match is in, from 1."""
        return int(getattr(self.game, "attempt", 1))


class TextWanted(NamedTuple):
    """A text that a rule wants."""

    shown: str  # what its writer sees


class Writing(Section):
    """Settings of a rule that has texts written."""

    question: str = Field("", description="the request to the writer; empty: the rule's own")
    choices: tuple[str, ...] = Field((), strict=False, description="texts to choose from; none: free text")
    most_characters: Positive = Field(MOST_CHARACTERS, description="longest text; the rest is cut off")
    most_tokens: Positive = Field(64, description="longest reply with a free text, in tokens")
    by: str = Field("", description="the role that writes it; empty: the seat itself")


@dataclass(frozen=True, slots=True)
class SlotRule(Entry[Callable[..., str]]):
    """A rule: ``make(sight, settings)`` returns the slot's text.

    ``asks(sight, settings)`` returns what has to be written before, or None; ``question`` is what its writer is asked.
    A rule that ``reads_past`` needs a game that tells it (``games.abilities.TellsPast``); one that ``keeps`` is asked
    once more when the match is over, and its last text is stored for later matches.
    """

    asks: Callable[..., TextWanted | None] | None = None
    question: str = ""
    reads_past: bool = False
    keeps: bool = False


class Filling(NamedTuple):
    """How a card fills one of its slots."""

    slot: str  # of ``NAMES``
    rule: str  # of the family
    settings: Any  # the rule's Section


def past_of(game: Game, seat: int) -> tuple[str, ...]:
    """Return what a seat was shown of earlier. Raises UsageError for a game that does not tell it apart."""
    if not isinstance(game, TellsPast):
        raise UsageError(
            f"A card of {game.spec.name} fills a slot from what was shown earlier, which {game.spec.name} does not "
            "separate from the present: give the game the method of games.abilities.TellsPast, or take a rule that "
            "does not read it."
        )
    return game.past(seat)


def without_past(observation: str, past: tuple[str, ...]) -> str:
    """Return an observation without the block of lines that tell of earlier."""
    return observation.replace("\n".join(past), "", 1).strip("\n") if past else observation


@lru_cache(maxsize=1024)
def split_prompt(prompt: str) -> tuple[str, str]:
    """Return the lines of a prompt from its first slot or observation to its last, and the prompt that is left.

    In the second they are replaced by ``{observation}``. Raises ValueError where ``{legal}`` is between them.
    """
    lines = prompt.split("\n")
    marks = [i for i, line in enumerate(lines) if any(_has(line, name) for name in (*NAMES, "observation"))]
    first, last = marks[0], marks[-1]
    view = "\n".join(lines[first : last + 1])
    if _has(view, "legal"):
        raise ValueError("its slots and {observation} have {legal} between them: write {legal} on a line after them.")
    return view, "\n".join([*lines[:first], "{observation}", *lines[last + 1 :]])


def filled(prompt: str, observation: str, texts: dict[str, str]) -> str:
    """Return what stands in place of a prompt's slots and observation; lines whose slots are all empty are left out."""
    lines = []
    for line in split_prompt(prompt)[0].split("\n"):
        slots = [name for name in NAMES if _has(line, name)]
        if not slots or _has(line, "observation") or any(texts.get(name) for name in slots):
            lines.append(line.format(observation=observation, **{name: texts.get(name, "") for name in NAMES}))
    return "\n".join(lines)


def _has(text: str, field: str) -> bool:
    return re.search(rf"(?<!\{{)(?:\{{\{{)*\{{{field}\}}", text) is not None
