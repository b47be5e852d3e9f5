"""What only a whole configuration shows to be wrong: names that fit nothing, rules without what they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from games.errors import UsageError, unknown_name
from league.config import RunConfig
from learners.advantages import rule_named
from learners.groups import NEEDS_GROUPS
from roles.role import Role

Roles = Mapping[str, tuple[Role, ...]]  # by game, then seat


def check(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for a configuration that could not train."""
    names = [f"{game}/{role.name}" for game, seated in roles.items() for role in seated]
    for section, given in (("roles.policy", config.roles.policy), ("credit.rules", config.credit.rules)):
        for name in given:
            if name not in names:
                raise unknown_name("role", name, names, f"{section} takes keys of the form game/role.")
    _check_policies(config, {role.policy for seated in roles.values() for role in seated})
    rule_named(config.credit.rule)
    for game, seated in roles.items():
        _check_rules(
            config, game, {config.credit.rules.get(f"{game}/{role.name}", config.credit.rule) for role in seated}
        )
        _check_groups(config, game)
        _check_alignment(config, game, seated)


def _check_policies(config: RunConfig, bound: set[str]) -> None:
    for name in config.policies:
        if name not in bound:
            raise unknown_name("policy", name, bound, "No role binds to it: set roles.policy.")
    for name, policy in config.policies.items():
        if policy.matches is not None and policy.matches < config.matchmaking.group_size:
            raise UsageError(
                f"policies.{name}.matches = {policy.matches} is less than one group of matchmaking.group_size = "
                f"{config.matchmaking.group_size} matches. Set it to that or more."
            )
    trained = {name for name in bound if name not in config.policies or not config.policies[name].frozen}
    if not trained:
        raise UsageError(f"All policies ({_listed(bound)}) are frozen, so nothing would be trained. Unfreeze one.")
    if config.alternate and len(trained) < 2:
        raise UsageError(
            f"alternate = {config.alternate} lets policies take turns, but only {_listed(trained)} is trained. "
            "Bind roles to several policies (roles.policy), or set alternate = 0."
        )


def _check_rules(config: RunConfig, game: str, rules: Iterable[str]) -> None:
    for rule in rules:
        rule_named(rule)
        if rule in NEEDS_GROUPS and config.matchmaking.group_size < 2:
            raise UsageError(
                f"Credit rule {rule!r} of {game} compares matches from one start, but matchmaking.group_size = "
                f"{config.matchmaking.group_size}. Set it to 2 or more (8 is usual)."
            )


def _check_groups(config: RunConfig, game: str) -> None:
    matches, size = config.games[game].matches, config.matchmaking.group_size
    if matches % size:
        raise UsageError(
            f"games.{game}.matches = {matches} cannot be cut into groups of matchmaking.group_size = {size}. "
            f"Set {matches - matches % size or size} or {matches + size - matches % size}."
        )


def _check_alignment(config: RunConfig, game: str, seated: tuple[Role, ...]) -> None:
    aligned = [role for role in seated if config.credit.rule_for(game, role.name) == "advantage_alignment"]
    if aligned and not len(aligned) == len(seated) == 2:
        raise UsageError(
            f"advantage_alignment multiplies the advantages of two seats; {game} has {len(seated)} seats, of which "
            f"{len(aligned)} use it. Give both roles of a two-seat game the rule, or neither."
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
