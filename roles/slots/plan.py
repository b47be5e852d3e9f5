"""``plan``: what another role advises, shown as a quotation; written once, before the seat's first turn.

A match may be given a plan when it is drawn (``advised(GAME)``), and then nobody is asked. Paid by what it changes, a
planner is trained as in EAGLET (arXiv:2510.05608).
"""

from __future__ import annotations

from games.talk.conversation import quoted
from roles.slots.rule import Sight, SlotRule, TextWanted, Writing


def plan(sight: Sight, _settings: Writing) -> str:
    """Show the plan of another role, as a quotation."""
    text = sight.written[-1].text if sight.written else sight.given
    return quoted(text) if text else ""


def _asks(sight: Sight, settings: Writing) -> TextWanted | None:
    if sight.over or sight.written or sight.given or not settings.by:
        return None
    return TextWanted(sight.game.observe(sight.seat))


RULE = SlotRule(plan, settings=Writing, asks=_asks, question="Write a plan for the player who sees this.")
