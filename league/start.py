"""How a run begins: the base model of each policy, and what it learns before its first match."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from arena.adapters import Adapters, AdapterShape, check_targets, linear_layers
from arena.checkpointing import enable_checkpointing
from arena.lm import LanguageModel
from arena.records import Cast, MatchRequest, Sampler, family
from arena.scheduler import play
from games.errors import UsageError
from games.registry import make_game, with_opened
from games.seeds import derive_seed
from league.bases import base_source, load_base, save_base
from league.config import RunConfig
from league.player_engines import SCRIPTED, Engines
from league.population import Population
from league.schedules import objective_at
from learners.cold_start import Example, cold_start
from learners.pocket import PocketShape, build_pocket
from learners.policy import Policy
from roles.prompts import Message, messages, plain_text
from roles.role import Role

if TYPE_CHECKING:
    from learners.critic import Critic

Roles = Mapping[str, tuple[Role, ...]]  # by game, then seat


class Shown(NamedTuple):
    """A prompt and the reply that a demonstrator gave to it."""

    chat: list[Message]
    reply: str
    role: Role
    legal: tuple[str, ...]


def start_policies(config: RunConfig, roles: Roles, run_dir: Path | None = None) -> dict[str, Policy]:
    """Return the policies that the roles bind to, by name; a pocket model has had its cold start.

    Policies start from equal weights. A base that adapters share is kept in ``run_dir``, if one is given.
    Raises UsageError for an adapter that does not fit the model.
    """
    names, shown = policy_names(config, roles), demonstrations(config, roles)
    adapted = [name for name in names if config.policy(name).kind == "lora"]
    lm = base_model(config, shown)
    linear = linear_layers(lm.model)
    for name in adapted:
        try:
            check_targets(lm.model, linear, config.policy(name).targets)
        except UsageError as error:
            raise UsageError(f"policies.{name}.targets: {error}") from error
    if config.cold_start.steps and config.model.source == "pocket":
        _imitate(config, lm, shown)
    if run_dir is not None and adapted:
        save_base(config, run_dir, lm)
    whole = [name for name in names if name not in adapted]
    models = {name: lm.copy() if adapted or name != whole[-1] else lm for name in whole}
    if adapted:
        models |= _adapters(config, adapted, lm)
    return {name: new_policy(config, name, models[name], roles) for name in names}


def reopened_policies(config: RunConfig, roles: Roles, run_dir: Path, population: Population) -> dict[str, Policy]:
    """Return the policies of a run that is gone on with, to be filled from its saved state.

    Whole models are shaped by their newest snapshots. Raises UsageError if a file they need has changed.
    """
    names, model = policy_names(config, roles), config.model
    models: dict[str, LanguageModel] = {}
    adapted = [name for name in names if config.policy(name).kind == "lora"]
    if adapted:
        models |= _adapters(config, adapted, load_base(config, run_dir))
    for name in names:
        if name not in adapted:
            known = name if population.all(name) else names[0]  # an exploiter that was never frozen has main's shape
            newest = population.verify(population.newest(known))
            models[name] = LanguageModel.load(newest.path, device=model.device, dtype=model.dtype)
    return {name: new_policy(config, name, models[name], roles) for name in names}


def policies_on(config: RunConfig, roles: Roles, base: str, names: Sequence[str]) -> dict[str, Policy]:
    """Return some of a run's policies on a base, a folder or a hub id, to be filled from what was saved of them."""
    model = config.model
    adapted = [name for name in names if config.policy(name).kind == "lora"]
    models: dict[str, LanguageModel] = {}
    if adapted:
        models |= _adapters(config, adapted, LanguageModel.load(base, device=model.device, dtype=model.dtype))
    for name in names:
        if name not in adapted:
            models[name] = LanguageModel.load(base, device=model.device, dtype=model.dtype)
    return {name: new_policy(config, name, models[name], roles) for name in names}


def policy_names(config: RunConfig, roles: Roles) -> list[str]:
    """Return the policies that roles bind to, each once, and then the exploiters."""
    bound = dict.fromkeys(role.policy for seated in roles.values() for role in seated)
    return list(bound | dict.fromkeys(config.exploiter_kinds))


def _adapters(config: RunConfig, names: Sequence[str], base: LanguageModel) -> dict[str, LanguageModel]:
    """Return the new adapters of policies, by name, all on one base."""
    adapters = Adapters(base, base_source(config))
    return {
        name: adapters.add(
            AdapterShape(settings.rank, settings.alpha, settings.targets), derive_seed(config.seed, "adapter", name)
        )
        for name in names
        for settings in [config.policy(name)]
    }


def new_policy(config: RunConfig, name: str, lm: LanguageModel, roles: Roles) -> Policy:
    """Return a policy as the configuration wants it trained."""
    objective, trained = config.objective, not config.policy(name).frozen
    if config.learner.checkpointing:
        enable_checkpointing(lm.model)
    return Policy(
        name,
        lm,
        weight_decay=config.learner.weight_decay,
        optimizer=config.learner.optimizer,
        magnet=trained and objective.magnet > 0.0,
        reference=trained and objective_at(config, 1, name).needs_reference,
        critic=_critic(config, name, lm, roles) if trained else None,
    )


def _critic(config: RunConfig, name: str, lm: LanguageModel, roles: Roles) -> Critic | None:
    """Return the value heads of the roles that a policy comes to and ``gae_turn`` credits, if there are any."""
    valued = [
        f"{game}/{role.name}"
        for game, seated in roles.items()
        for role in _taken(config, name, seated)
        if config.credit.rule_for(game, role.name) == "gae_turn"
    ]
    if not valued:
        return None
    from learners.critic import Critic

    return Critic(lm.model.config.hidden_size, valued, config.critic, derive_seed(config.seed, "critic", name))


def _taken(config: RunConfig, name: str, seated: Sequence[Role]) -> Sequence[Role]:
    """Return the roles of a game that a policy comes to; exploiters, and policies that swap, come to all."""
    bound = [role for role in seated if role.policy == name]
    return seated if name in config.exploiter_kinds or (bound and config.matchmaking.swap_every) else bound


def base_model(config: RunConfig, shown: list[Shown]) -> LanguageModel:
    """Return the configured base model: pocket, built from ``shown``, or a checkpoint."""
    model = config.model
    if model.source != "pocket":
        return LanguageModel.load(model.source, device=model.device, dtype=model.dtype)
    shape = PocketShape(
        model.hidden_size, model.layers, model.heads, model.kv_heads, model.intermediate_size, model.vocabulary
    )
    texts = [plain_text(one.chat) + one.reply for one in shown]
    lm = build_pocket(texts, shape, derive_seed(config.seed, "weights"))
    lm.model.to(model.device)
    return lm


def demonstrations(config: RunConfig, roles: Roles) -> list[Shown]:
    """Return every turn of the matches that the cold start imitates, and of those that they open.

    Raises UsageError for a demonstrator that is unknown, or cannot play one of the games.
    """
    names = config.cold_start.players
    engines = {name: _demonstrator(name) for name in names}
    requests: list[MatchRequest] = []
    for game in config.games:
        specs = [make_game(name).spec for name in with_opened([game])]
        for number in range(config.cold_start.matches):
            deal, sample, seating = (
                derive_seed(config.seed, "cold start", part, game, number) for part in ("deal", "sample", "seating")
            )
            rng = random.Random(seating)
            played, *opened = (
                Cast(one.name, tuple(rng.choices(names, k=one.seats)), (False,) * one.seats) for one in specs
            )
            requests.append(
                MatchRequest(len(requests), game, deal, sample, played.players, played.trained, cast=tuple(opened))
            )
    episodes = play(
        requests,
        roles_of=roles.__getitem__,
        engine_of=engines.__getitem__,
        make_game=make_game,
        in_flight=config.in_flight,
    )
    return [
        Shown(messages(role, turn.observation, turn.legal), turn.reply, role, turn.legal)
        for episode in family(episodes)
        for turn in episode.turns
        for role in [roles[episode.request.game][turn.seat]]
    ]


def _demonstrator(name: str) -> Sampler:
    engine = Engines().scripted(name)
    if engine is None:
        raise UsageError(
            f"cold_start.players: {name!r} is not a player that is a rule. Choose from {', '.join(SCRIPTED)}."
        )
    return engine


def _imitate(config: RunConfig, lm: LanguageModel, shown: list[Shown]) -> None:
    """Teach the model to reply as the demonstrators do."""
    settings = config.cold_start
    cold_start(
        lm,
        [Example(lm.encode_prompt(one.chat), lm.encode_reply(one.reply)) for one in shown],
        steps=settings.steps,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        seed=derive_seed(config.seed, "imitation"),
    )
