"""What a critic with more sight reads of each turn: the turn's prompt, and below what the seat saw what it did not.

It is for training only: the trajectories, and all that play sees, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena.lm.chunks import Tokens
from arena.records import Episode, Turn
from arena.submatches import positions
from games.privileged import seen, with_privileged
from games.registry import make_game
from league.config.context import RunContext
from league.training.evidence.source import AfterPlay, Column, Source
from league.training.evidence.turn_values import from_critic
from learners.trajectories import Trajectory
from roles.chat_text import Message
from roles.prompts import messages
from roles.replies import speaking
from roles.role import Role

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel

Known = dict[object, Tokens]


def sees_more(context: RunContext, game: str, role: str) -> bool:
    """Return whether a role is valued by a critic that sees more (``critic.sees``)."""
    return bool(context.config.critic.sees) and from_critic(context.config, game, role)


def prompts_of_critics(context: RunContext, play: AfterPlay) -> Column:
    """Return what a critic that sees more reads in place of each turn's prompt.

    A reply after a refused one has the prompt of the first: what the seat was told of the refusal is left out.
    """
    known: dict[str, Known] = {}
    column: list[tuple[Tokens, ...] | None] = []
    for one in play.trajectories:
        if one.policy not in play.policies:
            column.append(None)
            continue
        lm, role = play.policies[one.policy].lm, context.roles[one.game][one.seat]
        asked = lm, role, play.matches[one.match], one, context.config.critic.sees
        column.append(critic_prompts(*asked, known.setdefault(one.policy, {})))
    return column


SOURCE = Source(prompts_of_critics, asked=sees_more)


def critic_prompts(
    lm: LanguageModel, role: Role, episode: Episode, trajectory: Trajectory, sees: Sequence[str], known: Known
) -> tuple[Tokens, ...]:
    """Return what a critic that ``sees`` more reads of each turn [K]; ``known`` holds what this model has encoded."""
    prompts = []
    for turn, more in zip(trajectory.turns, _privileged(episode, trajectory, sees), strict=True):
        key = role, turn.observation, turn.legal, turn.form, more
        if key not in known:
            known[key] = lm.encode_prompt(_request(role, turn, more))
        prompts.append(known[key])
    return tuple(prompts)


def _privileged(episode: Episode, trajectory: Trajectory, sees: Sequence[str]) -> list[str]:
    """Return what is to be seen beyond the seat's observation before each of its turns."""
    wanted, game = set(trajectory.order), make_game(trajectory.game)
    return [seen(at, trajectory.seat, sees) for place, at in enumerate(positions(game, episode)) if place in wanted]


def _request(role: Role, turn: Turn, more: str) -> list[Message]:
    """Return the request of a turn with more in its observation."""
    card = speaking(role) if turn.form else role
    return messages(card, with_privileged(turn.observation, more), turn.legal, (), turn.form)
