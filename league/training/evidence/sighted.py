"""Privileged prompts for critics: each turn's prompt, and below the seat's observation what the seat did not see.

They are for training only: the trajectories, and everything that play sees, stay as they are.
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
    """Return whether a role's values come from a critic with privileged information (``critic.sees``)."""
    return bool(context.config.critic.sees) and from_critic(context.config, game, role)


def prompts_of_critics(context: RunContext, play: AfterPlay) -> Column:
    """Return what a critic with privileged information reads instead of each turn's prompt.

    A reply after a refused one has the first one's prompt: the message about the refusal is left out.
    """
    encoded: dict[str, Known] = {}
    column: list[tuple[Tokens, ...] | None] = []
    for trajectory in play.trajectories:
        if trajectory.policy not in play.policies:
            column.append(None)
            continue
        lm, role = play.policies[trajectory.policy].lm, context.roles[trajectory.game][trajectory.seat]
        arguments = lm, role, play.matches[trajectory.match], trajectory, context.config.critic.sees
        column.append(critic_prompts(*arguments, encoded.setdefault(trajectory.policy, {})))
    return column


SOURCE = Source(prompts_of_critics, asked=sees_more)


def critic_prompts(
    lm: LanguageModel, role: Role, episode: Episode, trajectory: Trajectory, sees: Sequence[str], known: Known
) -> tuple[Tokens, ...]:
    """Return the prompt of a critic that ``sees`` more at each turn [K]; ``known`` caches this model's encodings."""
    prompts = []
    for turn, more in zip(trajectory.turns, _privileged(episode, trajectory, sees), strict=True):
        key = role, turn.observation, turn.legal, turn.form, more
        if key not in known:
            known[key] = lm.encode_prompt(_request(role, turn, more))
        prompts.append(known[key])
    return tuple(prompts)


def _privileged(episode: Episode, trajectory: Trajectory, sees: Sequence[str]) -> list[str]:
    """Return the privileged information beyond the seat's observation before each of its turns."""
    turn_indices, game = set(trajectory.order), make_game(trajectory.game)
    return [
        seen(at, trajectory.seat, sees) for index, at in enumerate(positions(game, episode)) if index in turn_indices
    ]


def _request(role: Role, turn: Turn, more: str) -> list[Message]:
    """Return a turn's request with privileged information in its observation."""
    card = speaking(role) if turn.form else role
    return messages(card, with_privileged(turn.observation, more), turn.legal, (), turn.form)
