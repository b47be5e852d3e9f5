"""The policies that are taught: where each starts, how it plays while it learns, and what it learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters
from arena.samplers.torch_lm import TorchLM
from league.config import RunConfig
from league.config.load import run_roles
from league.population.distillation.fit import Lesson, Teaching
from league.population.distillation.targets import Target
from league.population.models.base_model import base_name, base_source, load_base
from league.population.players.player import Player
from league.population.storage.identity import without_suffix
from league.population.storage.population import Snapshot
from league.population.storage.run_dir import Run
from learners.update.policy import Policy
from roles.role import bound_policies


class Taught(NamedTuple):
    """A policy that was taught, with its origin."""

    policy: Policy
    start: Snapshot
    parents: tuple[str, ...]  # ids of the mixture's members that it plays for


def students(run: Run, players: Mapping[str, Player]) -> dict[str, Taught]:
    """Return the policies of a run's roles by name, each with the weights of the member that plays it most.

    ``players``, by game, are of the run. Raises UsageError for a snapshot that has changed since it was frozen.
    """
    adapters: dict[str, Adapters] = {}
    starts = _starts(run, players).items()
    return {name: Taught(_policy(run, start, adapters), start, of) for name, (start, of) in starts}


def _starts(run: Run, players: Mapping[str, Player]) -> dict[str, tuple[Snapshot, tuple[str, ...]]]:
    """Return, by policy, the member of greatest weight (the newest of equals) and all members, the oldest first."""
    weights: dict[str, dict[str, float]] = {name: {} for name in bound_policies(run_roles(run.config))}
    for player in players.values():
        for home in (player, *player.team):
            for role, drawn in zip(home.roles, home.members, strict=True):
                for identity, weight in drawn if not role.fixed else ():
                    counted, name = weights[role.policy], without_suffix(identity).rpartition("@")[2]
                    counted[name] = counted.get(name, 0.0) + weight
    starts = {}
    for policy, counted in weights.items():
        if not counted:  # of roles in other games
            continue
        members = sorted((run.population.get(name) for name in counted), key=lambda snapshot: snapshot.step)
        start = max(members, key=lambda snapshot: (round(counted[snapshot.id], 9), snapshot.step))
        starts[policy] = start, tuple(snapshot.id for snapshot in members)
    return starts


def _policy(run: Run, start: Snapshot, shared: dict[str, Adapters]) -> Policy:
    """Return a policy with a snapshot's weights; adapters share their bases, which are kept by name in ``shared``."""
    config, model = run.config, run.config.model_of(start.policy)
    run.population.verify(start)
    if config.policy(start.policy).adapted:
        name = base_name(config, start.policy)
        if name not in shared:
            shared[name] = Adapters(load_base(config, run.path, start.policy), base_source(config, start.policy))
        lm: LanguageModel = shared[name].with_weights(start.path).copy()
    else:
        lm = LanguageModel.load(start.path, device=model.device, dtype=model.dtype)
    return Policy(start.policy, lm, weight_decay=0.0, magnet=False)


def engine_of(learning: Mapping[str, Taught], config: RunConfig) -> TorchLM:
    """Return an engine that plays the policies as they are; ``refresh`` it when their weights have changed."""
    engine = TorchLM(device=config.model.device, dtype=config.model.dtype)
    for name, taught in learning.items():
        engine.add(_live(name), taught.policy.lm)
    return engine


def _live(policy: str) -> str:
    return f"distilled {policy}"


def view(player: Player, engine: TorchLM) -> Player:
    """Return the policies of ``engine_of`` in the seats of a player; fixed players keep their roles."""
    members = tuple(
        seat if role.fixed else ((_live(role.policy), 1.0),)
        for role, seat in zip(player.roles, player.members, strict=True)
    )
    return Player(player.label, player.spec, engine, player.roles, members, others=player.others)


def teach(
    config: RunConfig, taught: Taught, targets: Sequence[Target], seed: int, tell: Callable[[int, int], None]
) -> None:
    """Teach a policy its own targets by the steps of ``[distil]``; ``tell`` is called with the progress."""
    own_targets = [target for target in targets if target.policy == taught.policy.name]
    if not own_targets:
        return
    settings, rate = config.distil, config.distil.learning_rate
    rate = config.optimizer.learning_rate if rate is None else rate
    teaching = Teaching(settings.steps, rate, config.optimizer.max_grad_norm)
    lesson = Lesson(taught.policy.lm, own_targets, _tokens(config))
    lesson.teach(taught.policy, teaching, seed, lambda step: tell(step + 1, settings.steps))


def mean_kl(config: RunConfig, learning: Mapping[str, Taught], targets: Sequence[Target]) -> float:
    """Return the KL of the targets to the policies, nats a situation."""
    parts = []
    for name, taught in learning.items():
        own_targets = [target for target in targets if target.policy == name]
        if own_targets:
            share = math.fsum(target.weight for target in own_targets)
            parts.append(share * Lesson(taught.policy.lm, own_targets, _tokens(config)).kl())
    return math.fsum(parts)


def _tokens(config: RunConfig) -> int:
    return config.optimizer.micro_batch_tokens or 8192
