"""The exact advantage of each turn: A(I, a) of the policies that played, by enumerating the whole game.

A turn's credit contains no luck; chance decides only which turns are played.
With ``all_replies`` every legal reply is credited by its probability times its advantage, drawn or not (expected policy
gradients, arXiv 1801.03326). The league enumerates (``league.training.evidence.exact_advantages``).
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from games.common.errors import UsageError
from games.common.section import Section
from learners.trajectories import Trajectory
from learners.values.estimator import Columns, Estimated, How, Simulator, ValueEstimator, ValueFacts
from roles.role import ReplyForm
from roles.slots import written_slots


class Settings(Section):
    """What exact advantages credit."""

    all_replies: bool = Field(
        False,
        description="credit every legal reply of a turn by its probability times its advantage, also those not drawn",
    )


def exact(trajectories: Sequence[Trajectory], simulator: Simulator, settings: Settings) -> Columns:
    """Enumerate the whole game; nothing is learned."""
    turns = simulator.exact(trajectories)
    columns = {Estimated.CONTRIBUTIONS: [exact_turns.advantages for exact_turns in turns]}
    return columns | (
        {"reply_credits": [exact_turns.reply_credits for exact_turns in turns]} if settings.all_replies else {}
    )


def check(facts: ValueFacts, settings: Settings) -> None:
    """Raise UsageError where some seat's policy has no table, or for rewards that enumeration does not know."""
    game, name = facts.game, "The estimator 'exact' of turn values"
    chosen = all(role.reply is ReplyForm.CHOICE for role in facts.roles)
    if game.submatch_games or len(facts.roles) < game.seats or not chosen:
        raise UsageError(
            f"{name} enumerates the whole game, so it needs every seat of {game.name} trained, replies chosen "
            "from the legal ones, and no submatches. Choose another values.estimator."
        )
    for role in facts.roles:
        if written := written_slots(role.slots):
            raise UsageError(
                f"{name} enumerates the whole game, but what fills {{{written[0]}}} on the card of {game.name}/"
                f"{role.name} is written in each match. Choose another values.estimator, or another card (roles.cards)."
            )
    if settings.all_replies:
        check_all_replies("values.exact.all_replies", "set values.exact.all_replies = false", facts)
    check_rewards(name, facts)


def check_all_replies(name: str, instead: str, facts: ValueFacts) -> None:
    """Raise UsageError where ``name``, which credits all legal replies, meets weights or credit of the drawn one.

    The credit of the drawn one is that of an outcome, or of a stated prediction.
    """
    if facts.truncated:
        raise UsageError(
            f"{name} credits replies that were not drawn, which have no importance weight. Leave objective.truncate "
            f"unset, or {instead}."
        )
    if facts.stated:
        raise UsageError(
            f"{name} credits all legal replies, but shaping.prediction.weight credits the prediction that "
            f"{facts.game.name}/{facts.stated[0]} has drawn. Set it to 0, or {instead}."
        )
    for role, (rule, rule_settings) in zip(facts.roles, facts.credit, strict=False):
        if getattr(rule_settings, "outcome", 0.0):
            raise UsageError(
                f"{name} credits every reply by its value, but credit.{rule}.outcome credits the one that was drawn by "
                f"how the match ended, so it would do nothing for {facts.game.name}/{role.name}. Leave it out, or "
                f"{instead}."
            )


def check_rewards(name: str, facts: ValueFacts) -> None:
    """Raise UsageError where the magnet adds to the rewards that ``name`` knows."""
    if facts.magnet_rewards:
        raise UsageError(
            f"{name} knows the rewards of {facts.game.name} alone, not those of the magnet. Set objective.magnet_rule "
            "= 'loss', or choose another values.estimator."
        )


ESTIMATOR = ValueEstimator(exact, Settings, check=check, kind=Estimated.CONTRIBUTIONS, how=How.EXACT)
