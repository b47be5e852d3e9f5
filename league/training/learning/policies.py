"""The policies of a run: created on a base model for a new run, or opened to load a checkpoint into."""

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
from league.config.context import RunContext
from league.config.schedules import objective_at
from league.population.models.base_model import base_source, load_base, save_base
from league.population.players.demonstrations import Demonstration, demonstrations
from league.population.storage.population import Population
from league.training.evidence.turn_values import from_critic
from league.training.learning.cold_start import base_model, imitate
from league.training.learning.own_replies import imitate_own_replies
from league.training.learning.trainers import trainer_for
from learners.update.policy import Policy
from roles.role import Role

if TYPE_CHECKING:
    from learners.update.critic import Critic


def start_policies(context: RunContext) -> dict[str, Policy]:
    """Return the policies of a new run by name, after their cold start.

    Policies on one base model start from equal weights, except that each may imitate a pretrained model's own replies.
    The base that adapters share is saved in the run's folder. Raises UsageError for an adapter that does not fit the
    model, and for a role in which no reply of a pretrained model was legal.
    """
    examples = demonstrations(context.config, context.roles)
    models: dict[str, LanguageModel] = {}
    for group in context.config.by_model(context.policies).values():
        models |= _start_models(context, group, examples)
    policies = {name: new_policy(context, name, models[name]) for name in context.policies}
    for policy in policies.values():
        policy.begin()
    return policies


def _start_models(context: RunContext, names: Sequence[str], examples: list[Demonstration]) -> dict[str, LanguageModel]:
    """Return the models of policies on one base model, after their cold start."""
    config, group_config = context.config, context.config.for_policy(names[0])
    adapted = [name for name in names if config.policy(name).adapted]
    lm = base_model(group_config, examples)
    linear = linear_layers(lm.model)
    for name in adapted:
        try:
            check_targets(lm.model, linear, config.policy(name).targets)
        except UsageError as error:
            raise UsageError(f"policies.{name}.targets: {error}") from error
    if config.cold_start.steps and group_config.model.source == "pocket":
        imitate(config, lm, examples)
    if adapted:
        save_base(config, context.run_dir, adapted[0], lm)
    full = [name for name in names if name not in adapted]
    models = {name: lm.copy() if adapted or name != full[-1] else lm for name in full}
    if adapted:
        models |= _adapters(config, adapted, lm)
    if config.cold_start.own_replies and group_config.model.source != "pocket":
        imitate_own_replies(group_config, models, examples)
    return models


def policies_for_resume(context: RunContext, *, empty: bool = False) -> dict[str, Policy]:
    """Return the policies of a run to resume; their weights are still to be loaded from its checkpoint.

    Full models take their shape from their newest snapshots; where they are to be ``empty``, they have no data, until
    they are sharded. Raises UsageError if a file they need has changed.
    """
    config, names = context.config, context.policies
    population = Population(context.run_dir / "population")
    models: dict[str, LanguageModel] = {}
    adapted = [name for name in names if config.policy(name).adapted]
    for first, group in config.by_model(adapted).items():
        models |= _adapters(config, group, load_base(config, context.run_dir, first))
    for group in config.by_model(names).values():
        for name in (name for name in group if name not in adapted):
            # an exploiter without a snapshot has the shape of another policy on its base
            shaped_as = next((shaped for shaped in (name, *group) if population.all(shaped)), name)
            folder = population.verify(population.newest(shaped_as)).path
            dtype = config.model_of(name).dtype
            models[name] = LanguageModel.without_data(folder, dtype=dtype) if empty else _loaded(config, name, folder)
    return {name: new_policy(context, name, models[name]) for name in names}


def policies_on_bases(context: RunContext, bases: Mapping[str, str]) -> dict[str, Policy]:
    """Return policies on bases (folders or hub ids, by policy); their weights are still to be loaded."""
    config, models = context.config, dict[str, LanguageModel]()
    for first, group in config.by_model(bases).items():
        adapted = [name for name in group if config.policy(name).adapted]
        models |= _adapters(config, adapted, _loaded(config, first, bases[first])) if adapted else {}
        models |= {name: _loaded(config, name, bases[name]) for name in group if name not in adapted}
    return {name: new_policy(context, name, models[name]) for name in bases}


def _loaded(config: RunConfig, policy: str, source: Path | str) -> LanguageModel:
    """Return the model in a folder or on the hub, with a policy's device and type."""
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


def new_policy(context: RunContext, name: str, lm: LanguageModel) -> Policy:
    """Return a policy with the optimiser, magnet, reference and critic that its configuration asks for."""
    config = context.config
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
        offload=context.run_dir if config.optimizer.offload else None,
        magnet=trained and objective.magnet > 0.0,
        reference=trained and objective_at(config, 1, name).needs_reference,
        critic=_critic(context, name, lm) if trained else None,
        average=config.policy(name).average if trained else None,
        trainer=trainer_for(context, name),
    )


def _critic(context: RunContext, name: str, lm: LanguageModel) -> Critic | None:
    """Return value heads for the roles that a policy plays and whose rules need values; None if there are none."""
    config = context.config
    valued = [
        f"{game}/{role.name}"
        for game, game_roles in context.roles.items()
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
