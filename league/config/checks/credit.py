"""Checks that credit rules get the data they need, and objectives the credit rules they need."""

from __future__ import annotations

from collections.abc import Mapping

from games.common.errors import UsageError
from games.common.registry import family
from games.privileged import seen
from games.registry import make_game
from league.config.checks.losses import check_losses
from league.config.run import RunConfig
from learners.advantages import RULES
from learners.advantages.rule import OF_PLAY, CreditFacts, Need
from learners.rewards import BREVITY, RETURN
from learners.selection import SELECTION
from learners.selection.rule import SelectionFacts
from learners.values import ESTIMATORS
from learners.values.estimator import Estimated, How, ValueFacts
from roles.role import ReplyForm, Role
from roles.slots import prediction_slots


def check_credit(config: RunConfig, roles: Mapping[str, tuple[Role, ...]]) -> None:
    """Raise UsageError, with what to set instead, for roles that their rules cannot credit."""
    RULES[config.credit.rule]
    for game, game_roles in roles.items():
        trained = tuple([role for role in game_roles if not role.fixed])
        _check_exploring(config, game, trained)
        for name in dict.fromkeys(config.credit.rule_for(game, role.name) for role in trained):
            rule = RULES[name]
            facts = _facts(config, game, game_roles, name)
            _check_estimators(config, game, trained, name)
            for need in [*(need for need in Need if need in rule.needs), *sorted(rule.needs - set(Need))]:
                if (check := _CHECKS[need] if need in OF_PLAY else family("evidence")[need].check) is not None:
                    check(name, facts)
            if rule.check is not None:
                rule.check(facts)
            _check_rewards(config, facts, name)
        _check_own_settings(config, game, trained)
        matchmaking = config.matchmaking
        spec = make_game(game).spec
        for name in config.selection.rules:
            if (check_rule := SELECTION[name].check) is not None:
                starts, truncate = config.starts.rule is not None, config.objective.truncate is not None
                check_rule(SelectionFacts(spec, matchmaking.group_size, starts, truncate))
        check_losses(config, CreditFacts(spec, game_roles, trained, matchmaking.group_size, matchmaking.tree))
    if config.critic.sees:
        _check_sight(config, roles)


def _facts(config: RunConfig, game: str, roles: tuple[Role, ...], rule: str) -> CreditFacts:
    credited_roles = [role for role in roles if not role.fixed and config.credit.rule_for(game, role.name) == rule]
    credited = tuple(credited_roles)
    matchmaking = config.matchmaking
    return CreditFacts(make_game(game).spec, roles, credited, matchmaking.group_size, matchmaking.tree)


def _check_estimators(config: RunConfig, game: str, roles: tuple[Role, ...], rule: str) -> None:
    """Refuse estimators that do not give the values the rule needs, or cannot value the game's turns."""
    needs = RULES[rule].needs
    for role in roles:
        name = config.values.estimator_for(game, role.name)
        estimator = ESTIMATORS[name]
        if config.credit.rule_for(game, role.name) != rule or not needs & set(Estimated):
            continue
        if estimator.kind not in needs:
            fit = [candidate for candidate, entry in ESTIMATORS.loaded().items() if entry.kind in needs]
            raise UsageError(
                f"Credit rule {rule!r} of {game}/{role.name} cannot use the turn values of the estimator {name!r}. Set "
                f"values.estimator to one of {', '.join(fit)}, or another credit.rule."
            )
        if estimator.check is not None:
            estimator.check(_value_facts(config, game, roles, name), config.values.settings_of(name))


def _check_exploring(config: RunConfig, game: str, roles: tuple[Role, ...]) -> None:
    """Refuse matches that explore where credit takes replies to be drawn as the policy has them."""
    for role in roles if config.matchmaking.explore else ():
        estimator = ESTIMATORS[config.values.estimator_for(game, role.name)]
        rule = config.credit.rule_for(game, role.name)
        if estimator.how is not How.REMEMBERED or estimator.kind not in RULES[rule].needs:
            fit = {name: entry.kind for name, entry in ESTIMATORS.loaded().items() if entry.how is How.REMEMBERED}
            rules = [name for name, entry in RULES.loaded().items() if entry.needs & set(fit.values())]
            raise UsageError(
                f"matchmaking.explore = {config.matchmaking.explore} draws replies that the policy would not, and "
                f"credit of {game}/{role.name} would take them for its own. Set credit.rule to "
                f"{' or '.join(rules)} and values.estimator to {' or '.join(fit)}, which no policy can bias, or "
                "matchmaking.explore = 0."
            )


def _value_facts(config: RunConfig, game: str, roles: tuple[Role, ...], estimator: str) -> ValueFacts:
    credit, objective, prediction = config.credit, config.objective, config.shaping.prediction
    rules = [credit.rule_for(game, role.name) for role in roles]
    valued = [
        role
        for role, rule in zip(roles, rules, strict=True)
        if config.values.estimator_for(game, role.name) == estimator and RULES[rule].needs & set(Estimated)
    ]
    settings = [credit.settings_for(game, role.name) for role in roles]
    return ValueFacts(
        make_game(game).spec,
        roles,
        tuple(
            [
                (rule, role_settings or credit.settings_of(rule))
                for rule, role_settings in zip(rules, settings, strict=True)
            ]
        ),
        truncated=objective.truncate is not None or objective.mismatch != "truncate",
        magnet_rewards=objective.magnet_rule == "rewards" and bool(objective.magnet),
        stated=tuple(
            [
                role.name
                for role in valued
                if prediction.on and prediction.factor(game, role.name) and prediction_slots(role.slots)
            ]
        ),
    )


def _check_sight(config: RunConfig, roles: Mapping[str, tuple[Role, ...]]) -> None:
    """Refuse privileged information for an unused critic, one that would see no more, or in games that open others."""
    sees = list(config.critic.sees)
    valued = [
        (game, role)
        for game, game_roles in roles.items()
        for role in game_roles
        if not role.fixed
        and Need.VALUES in config.credit.needs(game, role.name)
        and ESTIMATORS[config.values.estimator_for(game, role.name)].how is How.CRITIC
    ]
    if not valued:
        ask = ", ".join(name for name, rule in RULES.items() if Need.VALUES in rule.needs)
        raise UsageError(
            f"critic.sees = {sees}, but no role's rule uses a critic. Set credit.rule to one that does ({ask}), or "
            "leave critic.sees out."
        )
    for game, _ in valued:
        if make_game(game).spec.submatch_games:
            raise UsageError(
                f"critic.sees = {sees}: {game} opens other matches, so what its seats were shown cannot be recovered "
                "from a match's record. Leave critic.sees out."
            )
    if not any(seen(make_game(game), role.seat, sees) for game, role in valued):
        raise UsageError(
            f"critic.sees = {sees} shows the critic nothing more in {', '.join(dict.fromkeys(g for g, _ in valued))}: "
            "there is no such information, or the game does not provide it (games.privileged). Leave critic.sees out."
        )


def _check_own_settings(config: RunConfig, game: str, roles: tuple[Role, ...]) -> None:
    """Refuse a role's own settings where its rule does not have them, or credits all roles at once."""
    for role in roles:
        name = config.credit.rule_for(game, role.name)
        if config.credit.settings_for(game, role.name) is not None and RULES[name].across_roles:
            raise UsageError(
                f"Credit rule {name!r} of {game}/{role.name} also looks at other roles' matches, so no role can have "
                f"its own settings. Set [credit.{name}] for all of them, and leave credit.settings out."
            )


def _check_rewards(config: RunConfig, facts: CreditFacts, name: str) -> None:
    """Refuse rewards that a game does not pay, and a price of tokens where replies are chosen."""
    game = facts.game
    for role in facts.credited:
        for reward in config.credit.rewards(game.name, role.name):
            subject = f"Credit rule {name!r} of {game.name}/{role.name} weighs the reward {reward!r}"
            if reward == BREVITY and role.reply is not ReplyForm.FREE and not game.free_text:
                raise UsageError(
                    f"{subject}, the tokens of free replies, but this role chooses among legal ones. Set roles.reply = "
                    f"'free', or leave {reward} out of its weights."
                )
            if reward not in (RETURN, BREVITY, *game.reward_names):
                payable = [RETURN, *game.reward_names, f"{BREVITY} of free replies"]
                raise UsageError(f"{subject}, which {game.name} does not pay. It knows: {', '.join(payable)}.")


def _check_groups(rule: str, facts: CreditFacts) -> None:
    if facts.group_size < 2:
        raise UsageError(
            f"Credit rule {rule!r} of {facts.game.name} compares matches from one start, but matchmaking.group_size = "
            f"{facts.group_size}. Set it to 2 or more (8 is usual)."
        )


def _check_tree(rule: str, facts: CreditFacts) -> None:
    if not facts.tree:
        raise UsageError(
            f"Credit rule {rule!r} of {facts.game.name} needs whole trees of matches. Set matchmaking.tree to 2 or "
            "more replies."
        )


_CHECKS = {
    Need.GROUPS: _check_groups,
    Need.TREE: _check_tree,
    Need.PREFERENCES: None,
}  # the league resolves judges itself
