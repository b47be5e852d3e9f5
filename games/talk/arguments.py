"""Arguments and verdicts in words: which box a debater opens, and which one a judge names. Pure.

A sentence is read if it opens or names exactly one box; what is quoted, denied or said of others is not read, and
nothing is guessed. A text that is not read has a reason, which names boxes and quotes nothing.
"""

from __future__ import annotations

import re

from games.spec import Reading
from games.talk.conversation import unquoted, utterance

MOST_CHARACTERS = 600  # of what is said in a turn
NOTHING = "open nothing"
WORDS = ": "  # between an action and the words in which it was said
_TARGET = r"(?:the\s+)?(?:box\s*(?:number\s*)?)?(\d{1,2})\b"
_I = r"(?<!\bif )(?<!\bwhen )(?<!\bunless )\bi"
_WILL = (
    r"(?:'ll|\s+will|\s+shall|(?:\s+would|'d)\s+like\s+to|\s+want\s+to|\s+choose\s+to|\s+decide\s+to"
    r"|\s+am\s+going\s+to|'m\s+going\s+to)?"
)
_LET = r"\b(?:let\s+me|let\s+us|let's|allow\s+me\s+to|please)"
_OPENS = re.compile(  # "open 2" at the beginning of a sentence, or "I open box 2"; not "you opened box 2"
    rf"(?:(?:^|[.!?:;]\s+)|{_I}{_WILL}\s+(?:now\s+)?|{_LET}\s+(?:now\s+)?)open\s+{_TARGET}"
    rf"|{_I}(?:'m|\s+am)\s+(?:now\s+)?opening\s+{_TARGET}",
    re.IGNORECASE,
)
_MINE = re.compile(rf"\b(?:i|me|we|us)\b[^.,;:!?]*\bopen(?:ing|ed)?\s+{_TARGET}", re.IGNORECASE)  # of the speaker
_CONDITION = re.compile(r"\b(?:if|when|unless|whether)\b[^.,;:!?]*$", re.IGNORECASE)
_DENIED = re.compile(  # in the clause before a box; "but" begins another
    r"(?:\b(?:not|never|neither|nor|unlike|without)\b|n't\b|\brather\s+than\b|\binstead\s+of\b)"
    r"(?:(?!\bbut\b)[^.,;:!?])*$",
    re.IGNORECASE,
)
_OTHER = re.compile(rf"\s*,?\s*(?:and|or)\s+(?:open\s+)?{_TARGET}", re.IGNORECASE)  # a second box after the first
_BOX = re.compile(r"\bbox(?:\s+number)?\s*(\d{1,2})\b", re.IGNORECASE)
_EMPTY = re.compile(  # behind a box: it does not hold the prize
    r"\s+(?:(?:is|was|seems|looks|must\s+be|turned\s+out)\s+(?:to\s+be\s+)?(?:\w+\s+)?(?:not|empty|wrong|excluded)\b"
    r"|(?:is|was|does|ca|could|did)n't\b|(?:does|did|can|could)\s*not\b|(?:has|holds|contains)\s+(?:nothing|no)\b)",
    re.IGNORECASE,
)
_ASKED = re.compile(r"[^.!]*\?")  # behind a box: it is asked about, not named


def argument(text: str, boxes: int) -> Reading:
    """Return an argument as one action with its words: the one box that the speaker opens, or nothing."""
    words = utterance(text, MOST_CHARACTERS)
    if words is None:
        return Reading(None, f"Say something, in at most {MOST_CHARACTERS} characters.")
    spoken = unquoted(words.replace("\u2019", "'"))
    openings = list(_OPENS.finditer(spoken))
    opened = {int(match[1] or match[2]) for match in openings}
    if len(opened) > 1 or any(_OTHER.match(spoken[match.end() :]) for match in openings):
        return Reading(None, "Your reply opens more than one box: open one, or none.")
    if outside := [box for box in opened if not 1 <= box <= boxes]:
        return Reading(None, f"Your reply opens box {outside[0]}, and there are boxes 1 to {boxes}.")
    if not opened and (unclear := _unclear_opening(spoken)):
        return Reading(
            None,
            f"Your reply speaks of opening box {unclear}, and it is not clear that you do. To open it, say "
            f'"I open box {unclear}"; else do not speak of opening it.',
        )
    plain = f"open {opened.pop()}" if opened else NOTHING
    return Reading(plain if words == plain else f"{plain}{WORDS}{words}")


def _unclear_opening(spoken: str) -> int | None:
    """Return a box of which the speaker seems to say that it opens it; None for none, and for what is denied."""
    for match in _MINE.finditer(spoken):
        if not _DENIED.search(spoken[: match.start(1)]) and not _CONDITION.search(spoken[: match.start(1)]):
            return int(match[1])
    return None


def read_argument(text: str, boxes: int) -> str | None:
    """Return an argument as one action with its words; None as ``argument``."""
    return argument(text, boxes).action


def why_no_argument(text: str, boxes: int) -> str:
    """Return why a text is not an argument; "" for one that is."""
    return argument(text, boxes).why


def verdict(text: str, boxes: int) -> Reading:
    """Return the one box that a verdict names. Boxes that it denies, says are empty or asks about are not named.

    What is quoted is not named, but in a text that is one quotation.
    """
    spoken = unquoted(text.strip().replace("\u2019", "'"))
    denied, named = set[int](), set[int]()
    for match in _BOX.finditer(spoken):
        before, after = spoken[: match.start()], spoken[match.end() :]
        if _DENIED.search(before) or _EMPTY.match(after):
            denied.add(int(match[1]))
        elif not _ASKED.match(after):
            named.add(int(match[1]))
    left = sorted(named - denied)
    mark = 'Say your verdict alone, or last, after "Answer: ", as in "Answer: box 1".'
    if len(left) != 1:
        what = "more than one box: " + ", ".join(map(str, left)) if left else "no box as the one with the prize"
        return Reading(None, f"Your reply names {what}. {mark}")
    if not 1 <= left[0] <= boxes:
        return Reading(None, f"Your reply names box {left[0]}, and there are boxes 1 to {boxes}.")
    return Reading(f"box {left[0]}")


def read_verdict(text: str, boxes: int) -> str | None:
    """Return the one box that a verdict names; None as ``verdict``."""
    return verdict(text, boxes).action


def why_no_verdict(text: str, boxes: int) -> str:
    """Return why a text is not a verdict; "" for one that is."""
    return verdict(text, boxes).why
