"""Checks of ``[teacher]`` and of the weights beside it."""

from __future__ import annotations

from collections.abc import Sequence

from games.common.errors import UsageError, unknown_name
from league.config.checks.losses import surrogates_of
from league.config.run import RunConfig
from league.config.teacher import SELF
from learners.losses.term import LossNeed
from roles.role import Roles


def check_teacher_settings(config: RunConfig, names: Sequence[str], roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for a teacher that could not be followed.

    ``names`` are those of all roles, as game/role.
    """
    objective, teacher = config.objective, config.teacher
    for key in teacher.players:
        if key not in names and key not in roles:
            hint = "teacher.players takes keys of the form game/role, or game."
            raise unknown_name("role or game", key, [*names, *roles], hint)
    if objective.distill and not (teacher.player or teacher.players):
        raise UsageError(
            f"objective.distill = {objective.distill:g} needs a teacher. Name a player in teacher.player, such as "
            "equilibrium or RUN@mixture, or set objective.distill = 0."
        )
    if objective.distill and SELF in (teacher.player, *teacher.players.values()) and not teacher.sees:
        raise UsageError(
            "teacher 'self' is the policy in training, and says what it would reply anyway, unless it is shown more. "
            "Set teacher.sees, for example ['hidden'], or name another player."
        )
    preferring = [name for name, loss in surrogates_of(config).items() if LossNeed.ADVANTAGES not in loss.needs]
    if objective.policy_gradient != 1.0 and preferring:
        raise UsageError(
            f"objective.policy_gradient = {objective.policy_gradient:g} weighs advantages, and {preferring[0]} prefers "
            "replies instead of having any. Set it to 1, or take another objective.name."
        )
    if objective.policy_gradient == 0.0 and not (objective.distill or config.imitation.weight):
        raise UsageError(
            "objective.policy_gradient = 0 learns nothing from returns, and nothing else is to be learned. Set it "
            "above 0, or give objective.distill or imitation.weight a value."
        )
