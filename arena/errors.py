"""Errors of engines."""

from __future__ import annotations

from games.common.errors import UsageError
from roles.role import ReplyForm, Role


class EngineError(RuntimeError):
    """An engine failed, or did not return one reply for each request."""


def check_tabular(role: Role) -> None:
    """Raise UsageError for a role whose replies have no exact probabilities."""
    if role.reply is not ReplyForm.CHOICE:
        raise UsageError(
            f"Role {role.name!r} of {role.game} answers in free text, whose distribution over "
            "actions is not a table. Set roles.reply = 'choice', or estimate it by sampling."
        )
