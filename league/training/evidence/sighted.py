"""What a critic with more sight reads of each turn: the turn's prompt, and below what the seat saw what it did not.

It is for training only: the trajectories, and all that play sees, stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from arena.lm.chunks import Tokens
from arena.records import Episode, Turn, flatten_episodes
from arena.submatches import positions
from games.registry import make_game
from games.sights import seen, with_sights
from league.config.context import RunContext
from league.training.evidence.turn_values import from_critic
from learners.trajectories import Evidence, Trajectory
from roles.chat_text import Message
from roles.prompts import messages
from roles.replies import speaking
from roles.role import Role

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel
    from learners.update.policy import Policy

Known = dict[object, Tokens]


def with_sight(
    context: RunContext,
    policies: Mapping[str, Policy],
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
    evidence: list[Evidence],
) -> list[Evidence]:
    """Return the evidence with the prompts of critics that see more (``critic.sees``); the same where none does.

    A reply after a refused one has the prompt of the first: what the seat was told of the refusal is left out.
    """
    config = context.config
    if not config.critic.sees:
        return evidence
    matches = {episode.request.index: episode for episode in flatten_episodes(episodes)}
    known: dict[str, Known] = {}
    found = list(evidence)
    for i, one in enumerate(trajectories):
        if one.policy in policies and from_critic(config, one.game, one.role):
            lm, role = policies[one.policy].lm, context.roles[one.game][one.seat]
            asked = lm, role, matches[one.match], one, config.critic.sees
            found[i] = found[i]._replace(critic_prompts=critic_prompts(*asked, known.setdefault(one.policy, {})))
    return found


def critic_prompts(
    lm: LanguageModel, role: Role, episode: Episode, trajectory: Trajectory, sees: Sequence[str], known: Known
) -> tuple[Tokens, ...]:
    """Return what a critic that ``sees`` more reads of each turn [K]; ``known`` holds what this model has encoded."""
    prompts = []
    for turn, more in zip(trajectory.turns, _sights(episode, trajectory, sees), strict=True):
        key = role, turn.observation, turn.legal, turn.form, more
        if key not in known:
            known[key] = lm.encode_prompt(_request(role, turn, more))
        prompts.append(known[key])
    return tuple(prompts)


def _sights(episode: Episode, trajectory: Trajectory, sees: Sequence[str]) -> list[str]:
    """Return what is to be seen beyond the seat's observation before each of its turns."""
    wanted, game = set(trajectory.order), make_game(trajectory.game)
    return [seen(at, trajectory.seat, sees) for place, at in enumerate(positions(game, episode)) if place in wanted]


def _request(role: Role, turn: Turn, more: str) -> list[Message]:
    """Return the request of a turn with more in its observation."""
    card = speaking(role) if turn.form else role
    return messages(card, with_sights(turn.observation, more), turn.legal, (), turn.form)
