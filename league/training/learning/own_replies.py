"""Cold start of a pretrained model with free replies: it imitates its own legal replies (rejection sampling).

Untrained, such a model rarely answers in the required format, so learning from results has nothing to compare.
Therefore it samples many replies to each position of random legal play, with demonstrations before the question; the
replies that the parser accepts (or the game, for free text) are imitated without the demonstrations, so that the model
learns to give them from the prompt alone. Every word is the model's own, so its language is preserved. Every legal
action of a position is imitated equally often, so that nothing about good play is learned, and no action is lost before
play starts.

Rejection sampling as in STaR (Zelikman et al. 2022, https://arxiv.org/abs/2203.14465), with legality for correctness.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from arena.lm.chunks import Tokens
from arena.lm.decoding.decode import generate
from arena.lm.language_model import LanguageModel
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from league.config import RunConfig
from league.population.players.demonstrations import Demonstration
from learners.update.imitation import Example, cold_start
from roles.prompts import messages
from roles.replies import parse_reply, read_free_text
from roles.role import ReplyForm, Role

REPLIES_PER_ACTION = 8  # of a position that are imitated, at most: enough to keep the variety of its wording
BATCH_TOKENS = 8192  # padded tokens of prompts in a forward pass


class OwnReply(NamedTuple):
    """A position's prompt without demonstrations, and a legal reply that the model gave there with them."""

    role: Role
    prompt: Tokens
    reply: Tokens  # end token included
    action: str


def imitate_own_replies(
    config: RunConfig, models: Mapping[str, LanguageModel], positions: Sequence[Demonstration]
) -> None:
    """Train each policy to imitate the untrained model's legal replies in the policy's roles.

    ``models`` are the policies in training by name, all equal so far. Exploiters imitate the replies of all roles.
    Raises UsageError for a role in which no reply was legal.
    """
    replies = own_replies(config, next(iter(models.values())), positions)
    settings = config.cold_start
    for name, lm in models.items():
        of_policy = [reply for reply in replies if reply.role.policy == name or name in config.league_roles]
        if of_policy and not config.policy(name).frozen:
            cold_start(
                lm,
                balanced(of_policy, derive_seed(config.seed, "own replies", "order")),
                steps=settings.steps,
                batch_size=settings.batch_size,
                learning_rate=settings.learning_rate,
                seed=derive_seed(config.seed, "imitation", name),
                max_tokens=config.optimizer.micro_batch_tokens,
            )


def own_replies(config: RunConfig, lm: LanguageModel, positions: Sequence[Demonstration]) -> list[OwnReply]:
    """Return the model's legal replies to the free roles' distinct positions.

    It samples ``cold_start.own_replies`` replies to each. Raises UsageError for a role in which no reply was legal.
    """
    settings = config.cold_start
    distinct = {
        (position.role, position.chat[-1]["content"]): position
        for position in positions
        if position.role.reply is ReplyForm.FREE
    }
    legal_replies: list[OwnReply] = []
    for role in dict.fromkeys(role for role, _ in distinct):
        of_role = [position for (position_role, _), position in distinct.items() if position_role == role]
        helped = role.model_copy(update={"demonstrations": settings.demonstrations})
        legal = _legal_replies(lm, helped, of_role, settings.own_replies, config.seed)
        if not legal:
            raise _none_was_legal(config, role, len(of_role) * settings.own_replies)
        legal_replies += [reply._replace(role=role) for reply in legal]
    return legal_replies


def _legal_replies(
    lm: LanguageModel, helped: Role, positions: Sequence[Demonstration], draws: int, seed: int
) -> list[OwnReply]:
    """Draw replies to each position of a role with its demonstrations; return those that are legal and complete."""
    repeated = [position for position in positions for _ in range(draws)]
    plain = {id(position): lm.encode_prompt(position.chat) for position in positions}
    with_help = {
        id(position): lm.encode_prompt(messages(helped, position.observation, position.legal, (), _form(position)))
        for position in positions
    }
    sampled = generate(
        lm,
        [with_help[id(position)] for position in repeated],
        [random.Random(derive_seed(seed, "own replies", helped.game, helped.seat, i)) for i in range(len(repeated))],
        temperature=helped.temperature,
        max_tokens=helped.max_reply_tokens,
        max_batch_tokens=BATCH_TOKENS,
    )
    replies = []
    for position, (ids, _) in zip(repeated, sampled, strict=True):
        action = _read(helped, position, lm.decode(ids))
        if action is not None and ids[-1] == lm.end_token:
            replies.append(OwnReply(helped, plain[id(position)], ids, action))
    return replies


def _form(position: Demonstration) -> str:
    return "" if position.asked is None else position.asked.form


def _read(role: Role, position: Demonstration, text: str) -> str | None:
    return parse_reply(role, text, position.legal) if position.asked is None else read_free_text(position.asked, text)


def balanced(replies: Sequence[OwnReply], seed: int) -> list[Example]:
    """Return as many examples of each (prompt, action): ``REPLIES_PER_ACTION``, repeated where there are fewer."""
    by_action: dict[tuple[Tokens, str], list[Tokens]] = {}
    for reply in replies:
        by_action.setdefault((reply.prompt, reply.action), []).append(reply.reply)
    rng = random.Random(seed)
    return [
        Example(prompt, reply)
        for (prompt, _), texts in by_action.items()
        for reply in rng.choices(texts, k=REPLIES_PER_ACTION)
    ]


def _none_was_legal(config: RunConfig, role: Role, count: int) -> UsageError:
    return UsageError(
        f"None of the {count} replies of {config.model.source} as {role.game}/{role.name} is legal, so its cold start "
        "has nothing to imitate. Let it draw more replies (cold_start.own_replies), show it more demonstrations "
        "(cold_start.demonstrations) or set roles.reply = 'choice', which masks what is illegal."
    )
