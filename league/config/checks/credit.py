"""Checks that credit rules have what they need, and objectives the credit rules that they need."""

from __future__ import annotations

from collections.abc import Mapping

from games.common.errors import UsageError
from games.openspiel.repeated import is_repeated
from games.registry import make_game
from games.sights import seen
from league.config.run import RunConfig
from learners.advantages import RULES
from learners.advantages.rule import CreditFacts, Need
from learners.losses import LOSSES
from learners.losses.term import LossNeed
from learners.rewards import BREVITY, RETURN
from learners.values import CRITIC, ESTIMATORS, EXACT, PLAYED_ON, kind_of
from learners.values import NAMES as ESTIMATOR_NAMES
from learners.values import check_name as check_estimator
from learners.values.estimator import Estimated
from roles.role import OnIllegal, ReplyForm, Role


def check_credit(config: RunConfig, roles: Mapping[str, tuple[Role, ...]]) -> None:
    """Raise UsageError, with what to set instead, for roles that their rules cannot credit."""
    RULES[config.credit.rule]
    for game, game_roles in roles.items():
        trained = tuple([role for role in game_roles if not role.given])
        for name in dict.fromkeys(config.credit.rule_for(game, role.name) for role in trained):
            rule = RULES[name]
            facts = _facts(config, game, game_roles, name)
            _check_estimators(config, game, trained, name)
            for need in sorted(rule.needs, key=list(Need).index):
                if need in _CHECKS:
                    _CHECKS[need](name, facts)
            if rule.check is not None:
                rule.check(facts)
            _check_rewards(config, facts, name)
        _check_own_settings(config, game, trained)
        _check_dpo(config, game, trained)
        _check_whole_trajectories(config, game)
    if config.critic.sees:
        _check_sight(config, roles)


def _facts(config: RunConfig, game: str, roles: tuple[Role, ...], rule: str) -> CreditFacts:
    mine = [role for role in roles if not role.given and config.credit.rule_for(game, role.name) == rule]
    credited = tuple(mine)
    matchmaking = config.matchmaking
    return CreditFacts(make_game(game).spec, roles, credited, matchmaking.group_size, matchmaking.tree)


def _check_estimators(config: RunConfig, game: str, roles: tuple[Role, ...], rule: str) -> None:
    """Refuse estimators that do not say what the rule asks, or cannot value the game's turns."""
    needs, spec = RULES[rule].needs, make_game(game).spec
    for role in roles:
        name = config.values.estimator_for(game, role.name)
        check_estimator(name)
        if config.credit.rule_for(game, role.name) != rule or not needs & set(_ASKED.values()):
            continue
        if _ASKED[kind_of(name)] not in needs:
            fit = [known for known in ESTIMATOR_NAMES if _ASKED[kind_of(known)] in needs]
            raise UsageError(
                f"Credit rule {rule!r} of {game}/{role.name} cannot use what the estimator {name!r} says of turns. Set "
                f"values.estimator to one of {', '.join(fit)}, or another credit.rule."
            )
        if name in PLAYED_ON and spec.submatch_games:
            raise UsageError(
                f"{game} opens other matches, and these cannot be played on from their middles. "
                "Choose another values.estimator."
            )
        if name == EXACT:
            _check_exact(config, game, roles)
        estimator = ESTIMATORS.get(name)
        if estimator is not None and estimator.check is not None:
            estimator.check(spec)


def _check_exact(config: RunConfig, game: str, roles: tuple[Role, ...]) -> None:
    """Refuse exact advantages where some seat's policy has no table, and beside rewards that they do not know."""
    spec, name = make_game(game).spec, "The estimator 'exact' of turn values"
    if spec.submatch_games or len(roles) < spec.seats or any(role.reply is not ReplyForm.CHOICE for role in roles):
        raise UsageError(
            f"{name} counts a game out, so it needs every seat of {game} trained, with replies that are chosen from "
            "the legal ones, and no matches within matches. Choose another values.estimator."
        )
    if config.values.exact.all_replies and config.objective.truncate is not None:
        raise UsageError(
            "values.exact.all_replies credits replies that were not drawn, which have no importance weight. Leave "
            "objective.truncate unset, or set values.exact.all_replies = false."
        )
    if config.objective.magnet_rule == "rewards" and config.objective.magnet:
        raise UsageError(
            f"{name} knows the rewards of {game} alone, not those of the magnet. Set objective.magnet_rule = 'loss', "
            "or choose another values.estimator."
        )


def _check_sight(config: RunConfig, roles: Mapping[str, tuple[Role, ...]]) -> None:
    """Refuse sight for a critic that nobody asks, that could be shown nothing, or whose matches open others."""
    sees = list(config.critic.sees)
    valued = [
        (game, role)
        for game, game_roles in roles.items()
        for role in game_roles
        if not role.given
        and Need.VALUES in config.credit.needs(game, role.name)
        and config.values.estimator_for(game, role.name) == CRITIC
    ]
    if not valued:
        ask = ", ".join(name for name, rule in RULES.items() if Need.VALUES in rule.needs)
        raise UsageError(
            f"critic.sees = {sees}, but no role's rule asks a critic. Set credit.rule to one that does ({ask}), or "
            "leave critic.sees out."
        )
    for game, _ in valued:
        if make_game(game).spec.submatch_games:
            raise UsageError(
                f"critic.sees = {sees}: {game} opens other matches, so that what its seats were shown cannot be told "
                "from a match's record. Leave critic.sees out."
            )
    if not any(seen(make_game(game), role.seat, sees) for game, role in valued):
        raise UsageError(
            f"critic.sees = {sees} shows the critic nothing more in {', '.join(dict.fromkeys(g for g, _ in valued))}: "
            "there is nothing such, or the game does not tell it (games.sights). Leave critic.sees out."
        )


def _check_own_settings(config: RunConfig, game: str, roles: tuple[Role, ...]) -> None:
    """Refuse settings of a role that its rule does not have, or whose rule credits all roles at once."""
    for role in roles:
        name = config.credit.rule_for(game, role.name)
        if config.credit.settings_for(game, role.name) is not None and RULES[name].across_roles:
            raise UsageError(
                f"Credit rule {name!r} of {game}/{role.name} looks at other roles' matches too, so no role can have "
                f"settings of its own. Set [credit.{name}] for all of them, and leave credit.settings out."
            )


def _check_rewards(config: RunConfig, facts: CreditFacts, name: str) -> None:
    """Refuse rewards that a game does not pay, and a price of tokens where replies are chosen."""
    game = facts.game
    for role in facts.credited:
        for reward in config.credit.rewards(game.name, role.name):
            who = f"Credit rule {name!r} of {game.name}/{role.name} weighs the reward {reward!r}"
            if reward == BREVITY and role.reply is not ReplyForm.FREE and not game.free_text:
                raise UsageError(
                    f"{who}, the tokens of free replies, but this role chooses among legal ones. Set roles.reply = "
                    f"'free', or leave {reward} out of its weights."
                )
            if reward not in (RETURN, BREVITY, *game.reward_names):
                known = [RETURN, *game.reward_names, f"{BREVITY} of free replies"]
                raise UsageError(f"{who}, which {game.name} does not pay. It knows: {', '.join(known)}.")


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


def _check_counterfactuals(rule: str, facts: CreditFacts) -> None:
    game = facts.game.name
    if not is_repeated(game):
        raise UsageError(
            f"Credit rule {rule!r} uses the payoffs of actions that were not taken, so it is for repeated matrix "
            f"games, not for {game}. Set another credit.rule for it."
        )
    free = [role.name for role in facts.credited if role.reply is not ReplyForm.CHOICE]
    if free:
        raise UsageError(
            f"Credit rule {rule!r} needs the probability of every reply, but {', '.join(sorted(free))} of {game} "
            "answers in free text. Set roles.reply = 'choice', or another credit.rule."
        )


_ASKED = {
    Estimated.VALUES: Need.VALUES,
    Estimated.CONTRIBUTIONS: Need.CONTRIBUTIONS,
}  # what a rule needs that takes them
_CHECKS = {  # the league itself meets the needs that are missing here
    Need.GROUPS: _check_groups,
    Need.TREE: _check_tree,
    Need.COUNTERFACTUALS: _check_counterfactuals,
}


def _check_dpo(config: RunConfig, game: str, roles: tuple[Role, ...]) -> None:
    """Refuse the objective dpo for roles whose replies make no preference pairs."""
    for role in roles:
        rule, name = config.credit.rule_for(game, role.name), f"{game}/{role.name}"
        bound = roles if config.matchmaking.swap_every else (role,)  # swapping policies play every role
        players = dict.fromkeys([*(other.policy for other in bound), *config.league_roles])
        for policy in [policy for policy in players if _trains_by(config, policy, "dpo")]:
            if Need.TREE not in RULES[rule].needs:
                tree_rules = " or ".join(repr(other) for other, known in RULES.items() if Need.TREE in known.needs)
                raise UsageError(
                    f"Objective 'dpo' of policy {policy} prefers one reply to another, which only credit rule "
                    f"{tree_rules} can do; {name} has {rule!r}. Give it that rule, or set "
                    f"policies.{policy}.objective = 'ppo'."
                )
            if role.tools or role.conduct.on_illegal is OnIllegal.RETRY:
                why = "has tools" if role.tools else "may retry (roles.on_illegal)"
                raise UsageError(
                    f"Objective 'dpo' of policy {policy} is for roles that reply once, but {name} {why}. "
                    f"Change that, or set policies.{policy}.objective = 'ppo'."
                )


def _check_whole_trajectories(config: RunConfig, game: str) -> None:
    """Refuse objectives of whole trajectories without matches to compare, or with passes that shards cannot make."""
    surrogates = [config.objective.name, *(policy.objective for policy in config.policies.values())]
    needs = {name: LOSSES[name].needs for name in surrogates if name is not None}
    matchmaking = config.matchmaking
    compares = [name for name, own in needs.items() if LossNeed.COMPARISONS in own]
    if compares and matchmaking.group_size < 2 and not matchmaking.tree:
        raise UsageError(
            f"Objective {compares[0]!r} prefers the better of several matches of {game} from one start, but "
            "matchmaking.group_size = 1. Set it to 2 or more (8 is usual), or take another objective, such as 'kto'."
        )
    scored = [name for name, own in needs.items() if LossNeed.SCORES in own]
    if scored and config.optimizer.sharded:
        raise UsageError(
            f"Objective {scored[0]!r} adds passes to an update, which processes with shards (optimizer.sharded) could "
            "not make in step. Set optimizer.sharded = false, or take another objective.name."
        )


def _trains_by(config: RunConfig, policy: str, surrogate: str) -> bool:
    settings = config.policy(policy)
    return not settings.frozen and (settings.objective or config.objective.name) == surrogate
