"""The policies of a run: made on a base model for a new run, or opened to load a checkpoint into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arena.lm.compiled import compile_between_products
from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters, AdapterShape, check_targets, linear_layers
from arena.lm.scoring import enable_checkpointing
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from league.config import RunConfig
from league.config.load import policy_names
from league.config.schedules import objective_at
from league.population.models.base_model import base_source, load_base, save_base
from league.population.players.demonstrations import Demonstration, demonstrations
from league.population.storage.population import Population
from league.training.evidence.turn_values import from_critic
from league.training.learning.cold_start import base_model, imitate
from league.training.learning.own_replies import imitate_own_replies
from learners.update.policy import Policy
from roles.role import Role, Roles

if TYPE_CHECKING:
    from learners.update.critic import Critic


def start_policies(config: RunConfig, roles: Roles, run_dir: Path | None = None) -> dict[str, Policy]:
    """Return the policies of a new run by name, after their cold start.

    Those on one base model start from equal weights, but for what each imitates of a pretrained model's own replies.
    The base that adapters share is saved in ``run_dir``, if one is passed. Raises UsageError for an adapter that does
    not fit the model, and for a role in which no reply of a pretrained model was legal.
    """
    names, examples = policy_names(config, roles), demonstrations(config, roles)
    models: dict[str, LanguageModel] = {}
    for group in config.by_model(names).values():
        models |= _start_models(config, group, examples, run_dir)
    return {name: new_policy(config, name, models[name], roles) for name in names}


def _start_models(
    config: RunConfig, names: Sequence[str], examples: list[Demonstration], run_dir: Path | None
) -> dict[str, LanguageModel]:
    """Return the models of policies on one base model, after their cold start."""
    adapted, own = [name for name in names if config.policy(name).adapted], config.for_policy(names[0])
    lm = base_model(own, examples)
    linear = linear_layers(lm.model)
    for name in adapted:
        try:
            check_targets(lm.model, linear, config.policy(name).targets)
        except UsageError as error:
            raise UsageError(f"policies.{name}.targets: {error}") from error
    if config.cold_start.steps and own.model.source == "pocket":
        imitate(config, lm, examples)
    if run_dir is not None and adapted:
        save_base(config, run_dir, adapted[0], lm)
    full = [name for name in names if name not in adapted]
    models = {name: lm.copy() if adapted or name != full[-1] else lm for name in full}
    if adapted:
        models |= _adapters(config, adapted, lm)
    if config.cold_start.own_replies and own.model.source != "pocket":
        imitate_own_replies(own, models, examples)
    return models


def policies_for_resume(config: RunConfig, roles: Roles, run_dir: Path) -> dict[str, Policy]:
    """Return the policies of a run to resume; their weights are still to be loaded from its checkpoint.

    Full models take their shape from their newest snapshots. Raises UsageError if a file they need has changed.
    """
    names, population = policy_names(config, roles), Population(run_dir / "population")
    models: dict[str, LanguageModel] = {}
    adapted = [name for name in names if config.policy(name).adapted]
    for first, group in config.by_model(adapted).items():
        models |= _adapters(config, group, load_base(config, run_dir, first))
    for group in config.by_model(names).values():
        for name in (name for name in group if name not in adapted):
            # an exploiter without a snapshot has the shape of another policy on its base
            shaped_as = next((shaped for shaped in (name, *group) if population.all(shaped)), name)
            models[name] = _loaded(config, name, population.verify(population.newest(shaped_as)).path)
    return {name: new_policy(config, name, models[name], roles) for name in names}


def policies_on_bases(config: RunConfig, roles: Roles, bases: Mapping[str, str]) -> dict[str, Policy]:
    """Return policies on bases (folders or hub ids, by policy), with weights still to be loaded."""
    models: dict[str, LanguageModel] = {}
    for first, group in config.by_model(bases).items():
        adapted = [name for name in group if config.policy(name).adapted]
        models |= _adapters(config, adapted, _loaded(config, first, bases[first])) if adapted else {}
        models |= {name: _loaded(config, name, bases[name]) for name in group if name not in adapted}
    return {name: new_policy(config, name, models[name], roles) for name in bases}


def _loaded(config: RunConfig, policy: str, source: Path | str) -> LanguageModel:
    """Return the model in a folder or on the hub, held as a policy's is."""
    model = config.model_of(policy)
    return LanguageModel.load(source, device=model.device, dtype=model.dtype)


def _adapters(config: RunConfig, names: Sequence[str], base: LanguageModel) -> dict[str, LanguageModel]:
    """Return a new adapter for each policy, by name, all on one base."""
    adapters = Adapters(base, base_source(config, names[0]))
    return {
        name: adapters.add(
            AdapterShape(settings.rank, settings.alpha, settings.targets), derive_seed(config.seed, "adapter", name)
        )
        for name in names
        for settings in [config.policy(name)]
    }


def new_policy(config: RunConfig, name: str, lm: LanguageModel, roles: Roles) -> Policy:
    """Return a policy with the optimiser, magnet, reference and critic that its configuration asks for."""
    objective, trained = config.objective, not config.policy(name).frozen
    if config.optimizer.checkpointing:
        enable_checkpointing(lm.model)
    if config.model_of(name).compile:
        compile_between_products(lm.model)
    return Policy(
        name,
        lm,
        weight_decay=config.optimizer.weight_decay,
        optimizer=config.optimizer.name,
        magnet=trained and objective.magnet > 0.0,
        reference=trained and objective_at(config, 1, name).needs_reference,
        critic=_critic(config, name, lm, roles) if trained else None,
        average=config.policy(name).average if trained else None,
    )


def _critic(config: RunConfig, name: str, lm: LanguageModel, roles: Roles) -> Critic | None:
    """Return value heads for the roles that a policy plays and whose rules need values; None if there are none."""
    valued = [
        f"{game}/{role.name}"
        for game, game_roles in roles.items()
        for role in _played_roles(config, name, game_roles)
        if from_critic(config, game, role.name)
    ]
    if not valued:
        return None
    from learners.update.critic import Critic

    return Critic(lm.model.config.hidden_size, valued, config.critic, derive_seed(config.seed, "critic", name))


def _played_roles(config: RunConfig, name: str, roles: Sequence[Role]) -> Sequence[Role]:
    """Return the roles of a game that a policy plays; exploiters, and policies that swap seats, play all of them."""
    bound = [role for role in roles if role.policy == name]
    return roles if name in config.league_roles or (bound and config.matchmaking.swap_every) else bound
