"""What does not go together with updates that several processes take."""

from __future__ import annotations

import os
from collections.abc import Mapping

from games.errors import UsageError
from league.config import RunConfig
from roles.role import ReplyForm, Role


def check_learner(config: RunConfig, roles: Mapping[str, tuple[Role, ...]]) -> None:
    """Raise UsageError, with what to set instead, for updates that its processes could not take together."""
    learner = config.learner
    size = int(os.environ.get("WORLD_SIZE", learner.processes))
    if learner.sharded and size == 1:
        raise UsageError(
            "learner.sharded cuts weights up over processes, but learner.processes = 1. Set it to the number of GPUs, "
            "or learner.sharded = false."
        )
    if learner.sharded and learner.optimizer == "adamw8bit":
        raise UsageError(
            "learner.optimizer = 'adamw8bit' cannot keep the state of weights that learner.sharded cuts up. "
            "Set learner.optimizer = 'adamw'."
        )
    masked = sorted(
        f"{game}/{role.name}" for game, seated in roles.items() for role in seated if role.reply is ReplyForm.CHOICE
    )
    for setting in ("sharded", "checkpointing"):
        if getattr(learner, setting) and masked:
            raise UsageError(
                f"learner.{setting} is for models that answer in free text, but {masked[0]} chooses among replies. "
                f"Set roles.reply = 'free', or learner.{setting} = false."
            )
