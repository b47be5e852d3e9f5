"""The table ``[beliefs]``: whether seats are asked what they believe, and what the answers are for."""

from __future__ import annotations

from pydantic import Field

from games.common.section import Section


class BeliefsConfig(Section):
    """Probes of role cards: questions about the present position that are no moves."""

    ask: bool = Field(False, description="ask the probes of the role cards beside the matches; nothing played changes")

    @property
    def asked(self) -> bool:
        """Whether probes are asked."""
        return self.ask
