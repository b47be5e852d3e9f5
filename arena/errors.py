"""What can go wrong when an engine is asked."""

from __future__ import annotations

from games.errors import UsageError
from roles.role import ReplyForm, Role


class EngineError(RuntimeError):
    """An engine failed, or broke the rule of one reply for each request."""


def check_table(role: Role) -> None:
    """Raise UsageError for a role whose replies have no table of probabilities."""
    if role.reply is not ReplyForm.CHOICE:
        raise UsageError(
            f"Role {role.name!r} of {role.game} answers in free text, whose distribution over "
            "actions is not a table. Set roles.reply = 'choice', or estimate it by sampling."
        )
