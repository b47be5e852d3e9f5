"""``summary``: what was shown earlier in the seat's own words, or another role's, and below it what came since.

As soon as more than ``entries`` have come since the last summary, a new one is asked for, from the old one and what
came since: no prompt holds more, however long the match. It is a turn, paid by what comes after it, as in MEM1
(arXiv:2506.15841): where a summary loses what a later turn needs, that turn's reward says so.
"""

from __future__ import annotations

from pydantic import Field

from games.common.section import Count
from roles.slots.rule import Sight, SlotRule, TextWanted, Writing


class Summary(Writing):
    """Settings of ``summary``."""

    entries: Count = Field(0, description="how many entries to wait before asking for a new summary")


def summary(sight: Sight, _settings: Summary) -> str:
    """Show the latest summary, and what came since."""
    text, seen = (sight.written[-1].text, sight.written[-1].seen) if sight.written else ("", 0)
    return "\n".join([*([text] if text else ()), *sight.past[seen:]])


def _asks(sight: Sight, settings: Summary) -> TextWanted | None:
    seen = sight.written[-1].seen if sight.written else 0
    return (
        TextWanted(summary(sight, settings)) if len(sight.past) - seen > settings.entries and not sight.over else None
    )


RULE = SlotRule(
    summary,
    settings=Summary,
    asks=_asks,
    reads_past=True,
    question="Sum up what matters. You will see only this later.",
)
