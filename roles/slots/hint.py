"""``hint``: a hint that the game gives, in matches that the seat learns from and in no others.

What is learned with a hint has to be shown without: no evaluation, and no match of a player that is not trained there,
ever has one in a prompt.
"""

from __future__ import annotations

from games.abilities import GivesHints
from games.common.errors import UsageError
from games.common.section import Section
from roles.slots.rule import Sight, SlotRule


def hint(sight: Sight, _settings: Section) -> str:
    """Show the game's hint, in matches that the seat learns from."""
    if not sight.trained:
        return ""
    if not isinstance(sight.game, GivesHints):
        raise UsageError(
            f"{sight.game.spec.name} gives no hints: give it the method of games.abilities.GivesHints, or take the "
            "slot {hint} out of its card."
        )
    return sight.game.hint(sight.seat)


RULE = SlotRule(hint)
