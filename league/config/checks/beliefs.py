"""Checks of ``[beliefs]``, ``[shaping]`` and ``[prediction]``: that what is asked and paid for is known."""

from __future__ import annotations

from games.beliefs import KnowsAnswers
from games.common.errors import UsageError
from games.registry import make_game
from league.config.run import RunConfig
from learners.advantages.rule import Need
from roles.probes import AskedWhen
from roles.role import ReplyForm, Roles


def check_shaping(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for rewards beside the game's that nobody could earn."""
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


def check_beliefs(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for beliefs that nobody is asked for or that nothing comes of."""
    if not config.beliefs.asked:
        return
    probes = {game: [probe for role in seats for probe in role.probes] for game, seats in roles.items()}
    reasons = [f"beliefs.{term}.weight" for term, settings in config.beliefs.terms.items() if settings.on]
    first = reasons[0] if reasons else "beliefs.ask"
    if not any(probes.values()):
        raise UsageError(
            f"{first} asks seats what they believe, but no role of {', '.join(roles)} has a probe. Add a [[probe]] to "
            f"a role card (roles.cards; see: league docs beliefs), or leave {first} out."
        )
    known = [game for game, asked in probes.items() if asked and isinstance(make_game(game), KnowsAnswers)]
    if reasons and not known:
        raise UsageError(
            f"{first} pays for belief in the truth, which no game of {', '.join(roles)} knows. Set beliefs.ask = true "
            "to record beliefs alone, and the weights to 0."
        )
    turns = [game for game in known if any(probe.when is AskedWhen.TURNS for probe in probes[game])]
    if config.beliefs.speaking.on and not turns:
        raise UsageError(
            "beliefs.speaking.weight pays for what each speech changes, but the probes of "
            f"{', '.join(known)} are asked at the ends of a match only. Give one when = 'turns', or set it to 0."
        )


def check_prediction(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for a prediction of what no role is ever shown."""
    trained = [(game, role) for game, seats in roles.items() for role in seats if not role.given]
    replies, tools = config.prediction.replies, config.prediction.tools
    learning = [(game, role) for game, role in trained if replies.factor(game, role.name)]
    if replies.on:
        for game, _ in learning:
            if make_game(game).spec.submatch_games:
                raise UsageError(
                    f"prediction.replies.weight: {game} opens other matches, so that what its seats were shown cannot "
                    "be told from a match's record. Set it to 0 in prediction.replies.roles for its roles."
                )
        if learning and all(make_game(game).spec.seats == 1 for game, _ in learning):
            raise UsageError("prediction.replies.weight: no role that learns plays beside another. Set it to 0.")
    if tools.on and not any(role.tools and tools.factor(game, role.name) for game, role in trained):
        raise UsageError("prediction.tools.weight: no role that learns has a tool. Set it to 0, or roles.cards.")
