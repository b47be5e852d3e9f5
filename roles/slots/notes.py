"""``notes``: what was written after earlier matches against the same players.

A match is given its notes when it is drawn, from a store (``league.population.storage.notes``); after it, the seat is
shown the match and its old notes, and writes new ones. Without a store a slot of notes is empty.
"""

from __future__ import annotations

from roles.slots.rule import Sight, SlotRule, TextWanted, Writing


def notes(sight: Sight, _settings: Writing) -> str:
    """Show the notes that were written after earlier matches against the same players."""
    return sight.given


def _asks(sight: Sight, _settings: Writing) -> TextWanted | None:
    if sight.written or not sight.over:
        return None
    return TextWanted("\n".join([*([sight.given] if sight.given else ()), sight.game.observe(sight.seat)]))


RULE = SlotRule(
    notes, settings=Writing, asks=_asks, keeps=True, question="Write notes for your next match against this opponent."
)
