"""Where policies learn (``trainer.kind``): in the run's own processes, or with a trainer behind a door.

A trainer elsewhere has the weights and the optimiser's state of a policy; the run keeps a copy of the weights, with
which it plays, and sends slopes of log-probs (``learners.waist``). What a loss needs beyond that is refused here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from games.common.errors import UsageError
from games.common.registry import Entry, Registry
from league.config.context import RunContext
from league.config.learning import TinkerSettings, TrainerConfig
from league.config.run import RunConfig
from roles.role import ReplyForm, Role, Roles
from roles.truncation import NO_TRUNCATION, Truncation

if TYPE_CHECKING:
    from learners.waist import Trainer

MakeTrainer = Callable[[RunContext, str, Any], "Trainer"]


@dataclass(frozen=True, slots=True)
class TrainerKind(Entry[MakeTrainer | None]):
    """One kind of trainer. ``make(context, policy, settings)`` returns a trainer; without it policies learn here."""

    def refuse(self, config: RunConfig, roles: Roles) -> None:
        """Raise UsageError, with what to set instead, for a run that this trainer could not train."""
        for what, instead in _not_through(config, roles) if self.make is not None else ():
            raise UsageError(
                f"trainer.kind = {config.trainer.kind!r} trains remotely, from the log-probs of free replies' tokens, "
                f"but {what}. {instead}, or trainer.kind = 'torch'."
            )
        if self.check is not None:
            self.check(config, roles)


def trainer_for(context: RunContext, policy: str) -> Trainer | None:
    """Return the trainer of a policy that is trained; None where it learns in the run's own processes."""
    kind = TRAINERS[context.config.trainer.kind]
    if kind.make is None or context.config.policy(policy).frozen:
        return None
    return kind.make(context, policy, getattr(context.config.trainer, context.config.trainer.kind, None))


def _not_through(config: RunConfig, roles: Roles) -> Iterator[tuple[str, str]]:
    """Yield what a run has that does not go through the waist, and what to set instead."""
    trained = [
        (f"{game}/{role.name}", role)
        for game, game_roles in roles.items()
        for role in game_roles
        if not role.fixed and not config.policy(role.policy).frozen
    ]
    for name, role in trained:
        yield from _not_scored(name, role)
    for policy in dict.fromkeys(role.policy for _, role in trained):
        if not config.policy(policy).adapted:
            yield f"{policy} trains all weights", f"Set policies.{policy}.weights = 'lora'"
    yield from _not_learned(config)
    from league.training.evidence.turn_values import from_critic

    for name, _ in trained:
        game, _, role_name = name.rpartition("/")
        if from_critic(config, game, role_name):
            yield f"{name} has a critic, which reads hidden states", "Choose a credit rule without one (credit.rules)"


def _not_scored(name: str, role: Role) -> Iterator[tuple[str, str]]:
    """Yield what a role has whose replies a trainer elsewhere does not score."""
    if role.reply is ReplyForm.CHOICE:
        yield f"{name} chooses, and its loss sums over all legal replies", "Set roles.reply = 'free'"
    if role.temperature != 1.0:
        yield f"{name} samples at temperature {role.temperature:g}", "Set roles.temperature = 1.0"
    if Truncation(role.top_k, role.top_p, role.min_p) != NO_TRUNCATION:
        yield f"{name} samples with top_k, top_p or min_p", "Leave them out of [roles]"


def _not_learned(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield the settings of learning that need more than log-probs, or more than one trainer can do."""
    objective, optimizer = config.objective, config.optimizer
    processes = int(os.environ.get("WORLD_SIZE", optimizer.processes))
    entropy = {game: settings.entropy for game, settings in config.games.items() if settings.entropy}
    without = (  # the setting, its value that works, whether it is set to another, why it does not work
        ("objective.entropy", 0.0, objective.entropy or objective.entropy_end or entropy, "is of whole distributions"),
        ("objective.epo", 0.0, objective.epo or objective.epo_end, "is a band of the entropy of whole distributions"),
        ("cold_start.own_replies", 0, config.cold_start.own_replies, "imitates before the trainer starts"),
        ("async_learners.processes", "none", config.async_learners.processes != "none", "starts its own learners"),
        ("optimizer.processes", 1, processes > 1, "shares updates among processes"),
        ("optimizer.name", "adamw", optimizer.name != "adamw", "is not the trainer's optimiser"),
        (
            "matchmaking.response_from",
            "newest",
            config.matchmaking.response_from != "newest",
            "returns policies to older weights",
        ),
    )
    for setting, value, is_set, why in without:
        if is_set:
            yield f"{setting} {why}", f"Set {setting} = {value!r}"
    for name in config.league_roles:
        yield f"{name}, an exploiter or partner, is reset to given weights", f"Leave policies.{name} out"


def require_tinker() -> None:
    """Raise UsageError, which says how to install it, if Tinker's client is missing."""
    if find_spec("tinker") is None:
        raise UsageError(
            "trainer.kind = 'tinker', but Tinker's client is not installed. Install it (pip install "
            "'llm-league[tinker]'), or set trainer.kind = 'torch'."
        )


def _check_tinker(config: RunConfig, roles: Roles) -> None:
    """Refuse adapters of chosen modules: the service adapts attention and feed-forward layers, all of them."""
    for name in dict.fromkeys(role.policy for game_roles in roles.values() for role in game_roles):
        if config.policy(name).targets:
            raise UsageError(
                f"policies.{name}.targets chooses modules, but a Tinker service adapts all linear layers of attention "
                "and feed-forward blocks. Leave it out, or set trainer.kind = 'torch'."
            )


def _make_tinker(context: RunContext, policy: str, settings: TinkerSettings) -> Trainer:
    from league.training.learning.tinker_trainer import TinkerTrainer

    require_tinker()
    return TinkerTrainer(context, policy, settings)


TRAINERS: Registry[TrainerKind] = Registry(
    "trainers",
    "trainer",
    TrainerKind,
    "trainer.kind",
    {
        "torch": TrainerKind(None, description="PyTorch, in the run's own processes"),
        "tinker": TrainerKind(
            _make_tinker, TinkerSettings, check=_check_tinker, description="a service that speaks the Tinker API"
        ),
    },
    reserved=TrainerConfig.model_fields,
)
register = TRAINERS.register
