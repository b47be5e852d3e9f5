"""``reflection``: before each attempt but the first, the seat writes what to do otherwise, and reads it in the attempt.

Its reward is that of the attempts that follow, as in Retroformer (arXiv:2308.02151). Games with attempts are
``retried(GAME)``.
"""

from __future__ import annotations

from roles.slots.rule import Sight, SlotRule, TextWanted, Writing


def reflection(sight: Sight, _settings: Writing) -> str:
    """Show what was written before this attempt about the earlier ones."""
    return sight.written[-1].text if sight.written else ""


def _asks(sight: Sight, _settings: Writing) -> TextWanted | None:
    latest = sight.written[-1].attempt if sight.written else 1
    return TextWanted("\n".join(sight.past)) if sight.attempt > latest and not sight.over else None


RULE = SlotRule(
    reflection,
    settings=Writing,
    asks=_asks,
    reads_past=True,
    question="What will you do otherwise in the next attempt?",
)
