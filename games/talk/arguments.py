"""Arguments and verdicts in words: which box a debater opens, and which one a judge names. Pure.

A sentence is read if it opens or names exactly one box; what is quoted, denied or said of others is not read, and
nothing is guessed.
"""

from __future__ import annotations

import re

from games.talk.conversation import unquoted, utterance

MOST_CHARACTERS = 600  # of what is said in a turn
NOTHING = "open nothing"
WORDS = ": "  # between an action and the words in which it was said
_TARGET = r"(?:the\s+)?(?:box\s*(?:number\s*)?)?(\d{1,2})\b"
_I = r"(?<!\bif )(?<!\bwhen )(?<!\bunless )\bi"
_WILL = r"(?:'ll|\s+will|\s+shall|\s+want\s+to|\s+choose\s+to|\s+decide\s+to|\s+am\s+going\s+to|'m\s+going\s+to)?"
_OPENS = re.compile(  # "open 2" at the beginning of a sentence, or "I open box 2"; not "you opened box 2"
    rf"(?:(?:^|[.!?:;]\s+)|{_I}{_WILL}\s+(?:now\s+)?)open\s+{_TARGET}|{_I}(?:'m|\s+am)\s+(?:now\s+)?opening\s+{_TARGET}",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?:\bnot\b|\bnever\b|n't\b)[^.,;:!?]*$", re.IGNORECASE)  # in the clause before a box
_OTHER = re.compile(rf"\s*,?\s*(?:and|or)\s+(?:open\s+)?{_TARGET}", re.IGNORECASE)  # a second box after the first
_BOX = re.compile(r"\bbox(?:\s+number)?\s*(\d{1,2})\b", re.IGNORECASE)


def read_argument(text: str, boxes: int) -> str | None:
    """Return an argument as one action with its words: the one box that the speaker opens, or nothing.

    None for two boxes, and for one that is not there.
    """
    words = utterance(text, MOST_CHARACTERS)
    if words is None:
        return None
    spoken = unquoted(words.replace("\u2019", "'"))
    openings = list(_OPENS.finditer(spoken))
    opened = {int(match[1] or match[2]) for match in openings}
    unclear = len(opened) > 1 or any(_OTHER.match(spoken[match.end() :]) for match in openings)
    if unclear or not all(1 <= box <= boxes for box in opened):
        return None
    plain = f"open {opened.pop()}" if opened else NOTHING
    return plain if words == plain else f"{plain}{WORDS}{words}"


def read_verdict(text: str, boxes: int) -> str | None:
    """Return the one box that a verdict names; None for none, several, one that is denied, and one that is not there.

    What is quoted is not named, but in a text that is one quotation.
    """
    spoken = unquoted(text.strip().replace("\u2019", "'"))
    if any(_DENIED.search(spoken[: match.start()]) for match in _BOX.finditer(spoken)):
        return None
    named = {int(box) for box in _BOX.findall(spoken)}
    box = named.pop() if len(named) == 1 else 0
    return f"box {box}" if 1 <= box <= boxes else None
