"""What only a whole configuration shows to be wrong: names that fit nothing, rules without what they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from games.errors import UsageError, unknown_name
from games.registry import make_game
from games.spec import Utility
from league.checks_decoupled import check_decoupled
from league.checks_learner import check_learner
from league.config import RunConfig
from league.repeated import is_repeated
from learners.advantages import rule_named
from learners.groups import NEEDS_GROUPS
from roles.role import OnIllegal, ReplyForm, Role

Roles = Mapping[str, tuple[Role, ...]]  # by game, then seat


def check(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for a configuration that could not train."""
    names = [f"{game}/{role.name}" for game, seated in roles.items() for role in seated]
    for section, given in (("roles.policy", config.roles.policy), ("credit.rules", config.credit.rules)):
        for name in given:
            if name not in names:
                raise unknown_name("role", name, names, f"{section} takes keys of the form game/role.")
    _check_exploiters(config, roles)
    _check_meta(config, roles)
    _check_policies(config, {role.policy for seated in roles.values() for role in seated})
    check_decoupled(config, {role.policy for seated in roles.values() for role in seated})
    check_learner(config, roles)
    rule_named(config.credit.rule)
    for game, seated in roles.items():
        _check_rules(
            config, game, {config.credit.rules.get(f"{game}/{role.name}", config.credit.rule) for role in seated}
        )
        if game in config.games:  # those that matches open are played as often as these open them
            _check_groups(config, game)
        _check_shares(config, game, seated)
        _check_alignment(config, game, seated)
        _check_dpo(config, game, seated)
        _check_regret(config, game, seated)


def _check_policies(config: RunConfig, bound: set[str]) -> None:
    for name, policy in config.policies.items():
        if name not in bound and policy.learner == "main":
            hint = "No role binds to it: set roles.policy, or make it an exploiter by its learner."
            raise unknown_name("policy", name, bound, hint)
        if name in bound and policy.learner != "main":
            raise UsageError(
                f"policies.{name}.learner = {policy.learner!r}, but a role binds to {name}. An exploiter takes "
                "every seat in turn and is bound to none: leave it out of roles.policy, or set learner = 'main'."
            )
    trained = {name for name in bound if name not in config.policies or not config.policies[name].frozen}
    if not trained:
        raise UsageError(f"All policies ({_listed(bound)}) are frozen, so nothing would be trained. Unfreeze one.")
    if config.alternate and len(trained) < 2:
        raise UsageError(
            f"alternate = {config.alternate} lets policies take turns, but only {_listed(trained)} is trained. "
            "Bind roles to several policies (roles.policy), or set alternate = 0."
        )


def _check_exploiters(config: RunConfig, roles: Roles) -> None:
    kinds = config.exploiter_kinds
    share = config.exploiters.share * len(kinds)
    if kinds and share >= 1.0:
        raise UsageError(
            f"exploiters.share = {config.exploiters.share} for each of {len(kinds)} exploiters leaves the main "
            f"policies no match. Set it below {1 / len(kinds):.3g}."
        )
    if kinds and all(len(seated) == 1 for seated in roles.values()):
        raise UsageError(f"{_listed(kinds)} cannot exploit anybody: every game of the run has one seat.")
    if config.exploiters.freeze_from > config.exploiters.freeze_after:
        raise UsageError(
            f"exploiters.freeze_from = {config.exploiters.freeze_from} is later than exploiters.freeze_after = "
            f"{config.exploiters.freeze_after}. Set it to that or less."
        )


def _check_meta(config: RunConfig, roles: Roles) -> None:
    apart = [game for game, seated in roles.items() if len({role.policy for role in seated}) > 1]
    asked = {"evaluation.mixture": config.evaluation.mixture}
    asked |= {"matchmaking.psro_solver": config.matchmaking.psro_solver} if config.matchmaking.psro else {}
    for setting, solver in asked.items():
        if apart and solver in ("alpha_rank", "nash_averaging"):
            raise UsageError(
                f"{setting} = {solver!r} weighs players that take all seats, but in {apart[0]} roles have policies "
                "of their own. Use nash, prd, linear or uniform."
            )
        for game in apart:
            solved = solver in ("nash", "least_exploitable")
            if solved and (len(roles[game]) != 2 or make_game(game).spec.utility is Utility.GENERAL_SUM):
                raise UsageError(
                    f"{setting} = {solver!r} solves games of two seats in which one's gain is the other's loss; {game} "
                    "is not one. Use prd, linear or uniform, or matchmaking.jpsro instead of psro."
                )


def _check_rules(config: RunConfig, game: str, rules: Iterable[str]) -> None:
    for rule in rules:
        rule_named(rule)
        if rule in NEEDS_GROUPS and config.matchmaking.group_size < 2:
            raise UsageError(
                f"Credit rule {rule!r} of {game} compares matches from one start, but matchmaking.group_size = "
                f"{config.matchmaking.group_size}. Set it to 2 or more (8 is usual)."
            )
        if rule == "malt" and not config.matchmaking.tree:
            raise UsageError(
                f"Credit rule 'malt' of {game} needs whole trees of matches. Set matchmaking.tree to 2 or more replies."
            )


def _check_groups(config: RunConfig, game: str) -> None:
    matches, turns = config.games[game].matches, make_game(game).spec.max_turns
    size = config.matchmaking.matches_of_start(turns)
    if matches % size:
        meant = f"trees of {config.matchmaking.tree} replies to the power of {turns} turns: {size} matches"
        groups = meant if config.matchmaking.tree else f"groups of matchmaking.group_size = {size}"
        raise UsageError(
            f"games.{game}.matches = {matches} cannot be cut into {groups}. "
            f"Set {matches - matches % size or size} or {matches + size - matches % size}."
        )


def _check_shares(config: RunConfig, game: str, seated: tuple[Role, ...]) -> None:
    """Refuse an update of fewer matches than are kept together."""
    size, kept = config.matchmaking.group_size, f"group of matchmaking.group_size = {config.matchmaking.group_size}"
    if config.matchmaking.tree and game in config.games:
        size = config.matchmaking.matches_of_start(make_game(game).spec.max_turns)
        kept = f"tree of matchmaking.tree = {config.matchmaking.tree} in {game}, {size}"
    for name in dict.fromkeys([*(role.policy for role in seated), *config.exploiter_kinds]):
        matches = config.policy(name).matches
        if matches is not None and matches < size:
            raise UsageError(
                f"policies.{name}.matches = {matches} is less than one {kept} matches. Set it to that or more."
            )


def _check_alignment(config: RunConfig, game: str, seated: tuple[Role, ...]) -> None:
    aligned = [role for role in seated if config.credit.rule_for(game, role.name) == "advantage_alignment"]
    if aligned and not len(aligned) == len(seated) == 2:
        raise UsageError(
            f"advantage_alignment multiplies the advantages of two seats; {game} has {len(seated)} seats, of which "
            f"{len(aligned)} use it. Give both roles of a two-seat game the rule, or neither."
        )


def _check_dpo(config: RunConfig, game: str, seated: tuple[Role, ...]) -> None:
    """Refuse the objective where replies make no pairs."""
    for role in seated:
        rule, name = config.credit.rule_for(game, role.name), f"{game}/{role.name}"
        seating = seated if config.matchmaking.swap_every else (role,)  # then every policy comes to every seat
        takers = dict.fromkeys([*(one.policy for one in seating), *config.exploiter_kinds])
        for policy in [one for one in takers if _prefers(config, one)]:
            if rule != "malt":
                raise UsageError(
                    f"Objective 'dpo' of policy {policy} prefers one reply to another, which only credit rule 'malt' "
                    f"can do; {name} has {rule!r}. Give it that rule, or set policies.{policy}.objective = 'ppo'."
                )
            if role.tools or role.conduct.on_illegal is OnIllegal.RETRY:
                why = "has tools" if role.tools else "may retry (roles.on_illegal)"
                raise UsageError(
                    f"Objective 'dpo' of policy {policy} is for roles that reply once, but {name} {why}. "
                    f"Change that, or set policies.{policy}.objective = 'ppo'."
                )


def _prefers(config: RunConfig, policy: str) -> bool:
    settings = config.policy(policy)
    return not settings.frozen and (settings.objective or config.objective.name) == "dpo"


def _check_regret(config: RunConfig, game: str, seated: tuple[Role, ...]) -> None:
    credited = [role for role in seated if config.credit.rule_for(game, role.name) == "regret"]
    if not credited:
        return
    if not is_repeated(game):
        raise UsageError(
            f"Credit rule 'regret' asks what other actions would have paid in each round, so it is for repeated matrix "
            f"games, not for {game}. Set another credit.rule for it."
        )
    free = [role.name for role in credited if role.reply is not ReplyForm.CHOICE]
    if free:
        raise UsageError(
            f"Credit rule 'regret' needs the chance of every reply, but {_listed(free)} of {game} answers in free "
            "text. Set roles.reply = 'choice', or another credit.rule."
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
