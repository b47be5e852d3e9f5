"""Checks that the losses of a run have what they need (``LossNeed``)."""

from __future__ import annotations

from games.common.errors import UsageError
from league.config.run import RunConfig
from learners.advantages import RULES
from learners.advantages.rule import CreditFacts, Need
from learners.losses import LOSSES
from learners.losses.term import LossNeed, LossTerm
from roles.role import OnIllegal, Role


def surrogates_of(config: RunConfig) -> dict[str, LossTerm]:
    """Return the surrogates that a run names, in the order of the registry."""
    named = {config.objective.name, *(policy.objective for policy in config.policies.values())}
    return {name: entry for name, entry in LOSSES.loaded().items() if name in named}


def check_losses(config: RunConfig, facts: CreditFacts) -> None:
    """Raise UsageError, with what to set instead, for a game whose matches a surrogate cannot learn from.

    ``facts.credited`` are all roles of the game that are trained.
    """
    for name, entry in surrogates_of(config).items():
        if LossNeed.SIBLINGS in entry.needs:
            _check_siblings(config, name, facts)
    for name, entry in surrogates_of(config).items():
        if LossNeed.COMPARISONS in entry.needs and facts.group_size < 2 and not facts.tree:
            others = [
                o for o, e in LOSSES.items() if LossNeed.SCORES in e.needs and LossNeed.COMPARISONS not in e.needs
            ]
            raise UsageError(
                f"Objective {name!r} prefers the better of several matches of {facts.game.name} from one start, but "
                "matchmaking.group_size = 1. Set it to 2 or more (8 is usual), or take another objective, such as "
                f"{others[0]!r}."
            )
    for name, entry in surrogates_of(config).items():
        if LossNeed.SCORES in entry.needs and config.optimizer.sharded:
            raise UsageError(
                f"Objective {name!r} adds passes to an update, which sharded processes (optimizer.sharded) could "
                "not make in step. Set optimizer.sharded = false, or take another objective.name."
            )
        if entry.check is not None:
            entry.check(facts)


def _check_siblings(config: RunConfig, loss: str, facts: CreditFacts) -> None:
    """Refuse a loss of sibling replies for roles whose replies have no siblings."""
    usual = type(config.objective).model_fields["name"].default
    for role in facts.credited:
        rule, name = config.credit.rule_for(facts.game.name, role.name), f"{facts.game.name}/{role.name}"
        for policy in _learners(config, loss, role, facts.credited):
            if Need.TREE not in RULES[rule].needs:
                tree_rules = " or ".join(
                    repr(rule_name) for rule_name, entry in RULES.items() if Need.TREE in entry.needs
                )
                raise UsageError(
                    f"Objective {loss!r} of policy {policy} prefers one reply to another, which only credit rule "
                    f"{tree_rules} can do; {name} has {rule!r}. Give it that rule, or set "
                    f"policies.{policy}.objective = {usual!r}."
                )
            if role.tools or role.conduct.on_illegal is OnIllegal.RETRY:
                why = "has tools" if role.tools else "may retry (roles.on_illegal)"
                raise UsageError(
                    f"Objective {loss!r} of policy {policy} is for roles that reply once, but {name} {why}. "
                    f"Change that, or set policies.{policy}.objective = {usual!r}."
                )


def _learners(config: RunConfig, loss: str, role: Role, roles: tuple[Role, ...]) -> list[str]:
    """Return the policies that may play a role and learn by a loss."""
    bound = roles if config.matchmaking.swap_every else (role,)  # swapping policies play every role
    players = dict.fromkeys([*(other.policy for other in bound), *config.league_roles])
    return [
        name
        for name in players
        if not config.policy(name).frozen and (config.policy(name).objective or config.objective.name) == loss
    ]
