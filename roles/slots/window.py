"""``window``: the last few entries of what was shown earlier, and nothing of those before."""

from __future__ import annotations

from pydantic import Field

from games.common.section import Count, Section
from roles.slots.rule import Sight, SlotRule


class Window(Section):
    """Settings of ``window``."""

    entries: Count = Field(4, description="how many of the latest entries stay: hands, turns or attempts")


def window(sight: Sight, settings: Window) -> str:
    """Keep the latest entries of what was shown earlier."""
    return "\n".join(sight.past[-settings.entries :] if settings.entries else ())


RULE = SlotRule(window, settings=Window, reads_past=True)
