"""Checks of features that are off by default: a branch, a curriculum, a teacher, beliefs, shaping, prediction.

Each error names the setting that cannot work: credit that forks cannot share, games that cannot be judged, a teacher
that only repeats the policy, beliefs and rewards that have no effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from games.abilities import KnowsAnswers
from games.common.errors import UsageError, unknown_name
from games.registry import make_game
from games.spec import GameSpec
from league.config.checks.losses import surrogates_of
from league.config.run import RunConfig
from league.config.teacher import SELF
from learners.advantages.forks import FORKABLE
from learners.advantages.rule import Need
from learners.losses.term import LossNeed
from roles.probes import AskedWhen
from roles.role import OnIllegal, ReplyForm, Role, Roles
from roles.slots import RULES, prediction_slots


def check_shaping(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for shaping rewards that no seat could earn."""
    preferred, size = config.shaping.preferred, config.matchmaking.group_size
    if preferred.on and size < 2:
        raise UsageError(
            f"shaping.preferred compares matches from one start, but matchmaking.group_size = {size}. Set it to 2 or "
            "more (8 is usual)."
        )
    judged = any(
        Need.PREFERENCES in config.credit.needs(game, role.name) for game, seats in roles.items() for role in seats
    )
    if preferred.judge and not preferred.on and not judged:
        raise UsageError(
            f"shaping.preferred.judge names {preferred.judge}, but nothing asks it. Set shaping.preferred.weight, or a "
            "credit.rule that compares matches by a judge."
        )
    if config.shaping.agreement.on and all(
        role.reply is ReplyForm.CHOICE for seats in roles.values() for role in seats
    ):
        raise UsageError(
            "shaping.agreement pays for thoughts that agree with the action, but every role chooses its reply without "
            "a thought. Set roles.reply = 'free', or shaping.agreement.weight = 0."
        )
    if config.shaping.prediction.on:
        _check_stated(config, roles)


def _check_stated(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for credit of predictions that nobody states or that has no use."""
    factor, instead = config.shaping.prediction.factor, "or shaping.prediction.weight = 0"
    predicting = [
        game
        for game, seats in roles.items()
        for role in seats
        if not role.fixed and factor(game, role.name) and prediction_slots(role.slots)
    ]
    if not predicting:
        raise UsageError(
            "shaping.prediction.weight credits predictions that cards have written, but no learning role's card has a "
            f'slot with the rule prediction. Give one (roles.cards) slots = {{plan = {{rule = "prediction"}}}}, '
            f"{instead}."
        )
    if opening := [game for game in predicting if make_game(game).spec.submatch_games]:
        raise UsageError(
            f"shaping.prediction.weight: {opening[0]} opens other matches, so what its seats were shown cannot be "
            f"recovered from a match's record. Set it to 0 in shaping.prediction.roles, {instead}."
        )
    for name, entry in surrogates_of(config).items():
        if LossNeed.ADVANTAGES not in entry.needs:
            raise UsageError(
                f"shaping.prediction.weight adds to advantages, which objective.name = {name!r} does not read. Set "
                f"objective.name = 'ppo', {instead}."
            )


def check_beliefs(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for beliefs that no seat is asked about or that have no effect."""
    if not config.beliefs.asked:
        return
    probes = {game: [probe for role in seats for probe in role.probes] for game, seats in roles.items()}
    reasons = [f"beliefs.{term}.weight" for term, settings in config.beliefs.terms.items() if settings.on]
    first = reasons[0] if reasons else "beliefs.ask"
    if not any(probes.values()):
        raise UsageError(
            f"{first} asks seats what they believe, but no role of {', '.join(roles)} has a probe. Add a [[probe]] to "
            f"a role card (roles.cards; see: league show docs beliefs), or leave {first} out."
        )
    judged = [game for game, game_probes in probes.items() if game_probes and isinstance(make_game(game), KnowsAnswers)]
    if reasons and not judged:
        raise UsageError(
            f"{first} pays for belief in the truth, which no game of {', '.join(roles)} knows. Set beliefs.ask = true "
            "to record beliefs alone, and the weights to 0."
        )
    turns = [game for game in judged if any(probe.when is AskedWhen.TURNS for probe in probes[game])]
    if config.beliefs.speaking.on and not turns:
        raise UsageError(
            "beliefs.speaking.weight pays for what each speech changes, but the probes of "
            f"{', '.join(judged)} are asked only at the start and end of a match. Give one of them when = 'turns', or "
            "set the weight to 0."
        )


def check_prediction(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for the prediction of something that no role is ever shown."""
    trained = [(game, role) for game, seats in roles.items() for role in seats if not role.fixed]
    replies, tools = config.prediction.replies, config.prediction.tools
    learning = [(game, role) for game, role in trained if replies.factor(game, role.name)]
    if replies.on:
        for game, _ in learning:
            if make_game(game).spec.submatch_games:
                raise UsageError(
                    f"prediction.replies.weight: {game} opens other matches, so what its seats were shown cannot "
                    "be recovered from a match's record. Set it to 0 in prediction.replies.roles for its roles."
                )
        if learning and all(make_game(game).spec.seats == 1 for game, _ in learning):
            raise UsageError("prediction.replies.weight: no learning role plays with another. Set it to 0.")
    if tools.on and not any(role.tools and tools.factor(game, role.name) for game, role in trained):
        raise UsageError("prediction.tools.weight: no learning role has a tool. Set it to 0, or roles.cards.")


def check_discounts(config: RunConfig, game: str, roles: Sequence[Role]) -> None:
    """Raise UsageError for a discount below 1 with potentials or forks, whose guarantees need no discount."""
    on = [f"beliefs.{name}.potential" for name, term in config.beliefs.potentials.items() if term.on and term.potential]
    on += ["branching.rule"] if config.branching.rule is not None else []
    for role in roles:
        rule = config.credit.rule_for(game, role.name)
        settings = config.credit.settings_for(game, role.name) or config.credit.settings_of(rule)
        gamma = getattr(settings, "gamma", 1.0)
        if on and gamma < 1.0 and not role.fixed:
            raise UsageError(
                f"credit.{rule}.gamma = {gamma:g} of {game}/{role.name} discounts later rewards, and "
                f"{' and '.join(on)} leaves the optimal policy unchanged only without a discount: what is paid back "
                f"later would count less. Set credit.{rule}.gamma = 1, or leave the other out."
            )


def check_branching(config: RunConfig, game: str, roles: Sequence[Role]) -> None:
    """Raise UsageError, with what to set instead, for a game of the run that cannot be branched as configured."""
    settings, spec = config.branching, make_game(game).spec
    if settings.rule is None:
        return
    for role in roles:
        rule = config.credit.rule_for(game, role.name)
        if not role.fixed and rule not in FORKABLE:
            raise UsageError(
                f"branching.rule = {settings.rule!r} shares credit among forks, which credit rule {rule!r} of "
                f"{game}/{role.name} does not allow. Set credit.rule to {' or '.join(FORKABLE)}, or no branching.rule."
            )
    if any(role.tools for role in roles):
        raise UsageError(
            f"branching.rule = {settings.rule!r} continues matches from their middle, but those of {game} call tools. "
            "Leave branching out."
        )
    if config.matchmaking.tree:
        raise UsageError(
            "matchmaking.tree branches at every turn, and branching.rule at chosen ones. Leave one of them out."
        )
    needed = config.games[game].matches * most_turns(spec, roles) * (1 + most_retries(roles))
    if needed > settings.replies:
        raise UsageError(
            f"branching.replies = {settings.replies} is less than the {needed} replies that the whole matches of "
            f"{game} may take. Set it to more than that, or games.{game}.matches to fewer: what whole matches leave is "
            "spent on forks."
        )


def most_turns(spec: GameSpec, roles: Sequence[Role]) -> int:
    """Return how many turns a match may have: its moves, and the texts that its cards have written."""
    rules = [[RULES[one.rule] for one in role.slots] for role in roles]
    before = max(sum(rule.asks is not None and not rule.keeps for rule in own) for own in rules)
    return spec.max_turns * (1 + before) + sum(rule.keeps for own in rules for rule in own)


def most_retries(roles: Sequence[Role]) -> int:
    """Return how often a reply may be refused in one turn."""
    return max(role.conduct.retries if role.conduct.on_illegal is OnIllegal.RETRY else 0 for role in roles)


def check_curriculum(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for games that a curriculum cannot judge or schedule."""
    settings = config.curriculum
    if not settings.matches:
        return
    for game, game_config in config.games.items():
        spec = make_game(game).spec
        if not math.isfinite(spec.max_return - spec.min_return):
            raise UsageError(
                f"curriculum.matches = {settings.matches} judges games by where a return lies in their range, but "
                f"that of {game} is unbounded. Leave the game out, or set curriculum.matches = 0."
            )
        if settings.filter and game_config.every != 1:
            raise UsageError(
                f"games.{game}.every = {game_config.every}, but the curriculum decides when a game is played. Leave "
                "every out, or set curriculum.filter = false."
            )
    if settings.filter and config.branching.rule is not None:
        raise UsageError(
            f"branching.rule = {config.branching.rule!r} has a budget for each game's own matches, but the curriculum "
            "gives one game's matches to another. Leave one of them out, or set curriculum.filter = false."
        )
    if 0 < settings.most_matches < (needed := matches_to_judge(config, roles)):
        raise UsageError(
            f"curriculum.most_matches = {settings.most_matches} is less than the {needed} matches that judge the "
            "games once. Raise it to that or more, or lower curriculum.matches."
        )


def matches_to_judge(config: RunConfig, roles: Roles) -> int:
    """Return the most matches that judging all games once takes: newest, control and best, in each free seat."""
    seats = [sum(not role.fixed for role in roles[game]) for game in config.games]
    return sum(3 * -(-config.curriculum.matches // max(free, 1)) * free for free in seats)


def check_teacher_settings(config: RunConfig, names: Sequence[str], roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for a teacher that could not be followed.

    ``names`` are all roles, as game/role.
    """
    objective, teacher = config.objective, config.teacher
    for key in teacher.players:
        if key not in names and key not in roles:
            hint = "teacher.players takes keys of the form game/role, or game."
            raise unknown_name("role or game", key, [*names, *roles], hint)
    if objective.distill and not (teacher.player or teacher.players):
        raise UsageError(
            f"objective.distill = {objective.distill:g} needs a teacher. Name a player in teacher.player, such as "
            "equilibrium or RUN@mixture, or set objective.distill = 0."
        )
    if objective.distill and SELF in (teacher.player, *teacher.players.values()) and not teacher.sees:
        raise UsageError(
            "teacher 'self' is the policy in training, and would teach only what it replies anyway, unless it is "
            "shown more. Set teacher.sees, for example ['hidden'], or name another player."
        )
    preferring = [name for name, loss in surrogates_of(config).items() if LossNeed.ADVANTAGES not in loss.needs]
    if objective.policy_gradient != 1.0 and preferring:
        raise UsageError(
            f"objective.policy_gradient = {objective.policy_gradient:g} weights advantages, but {preferring[0]} "
            "prefers one reply to another and has none. Set it to 1, or choose another objective.name."
        )
    if objective.policy_gradient == 0.0 and not (objective.distill or config.imitation.weight):
        raise UsageError(
            "objective.policy_gradient = 0 learns nothing from returns, and there is nothing else to learn from. Set "
            "it above 0, or give objective.distill or imitation.weight a value."
        )
