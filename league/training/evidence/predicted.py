"""What seats were shown next of the others' turns and of their tools, for policies that learn to predict it.

A seat's own view alone is told: what it saw before another's turn is the question, and the words that are new in its
view after it the answer. Where nothing is new to it, as where others move in secret, there is nothing to predict. What
chance shows it at the same moment is among the new words, and a thought before a reply is not, since nobody sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from arena.lm.chunks import Tokens
from arena.records import Episode
from arena.submatches import positions
from games.registry import make_game
from league.config.context import RunContext
from league.training.evidence.source import AfterPlay, Column, Source
from learners.trajectories import Predicted, Trajectory
from roles.chat_text import Message
from roles.prompts import messages
from roles.replies import WHAT_RETURNS, predicting
from roles.role import Role

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel

_WORDS = re.compile(r"\s*\S+|\s+$")


class Shown(NamedTuple):
    """Words that were new in a seat's view, and the chat that asks for them."""

    source: str  # of ``learners.trajectories.SOURCES``
    asked: tuple[object, ...]  # equal where the chats are
    chat: list[Message]
    words: str


def predicts(context: RunContext, game: str, role: str) -> bool:
    """Return whether a role learns to predict what it is shown."""
    return bool(_wanted(context, game, role))


def _wanted(context: RunContext, game: str, role: str) -> list[str]:
    terms = context.config.prediction.terms
    return [source for source, term in terms.items() if term.on and term.factor(game, role)]


def predicted(context: RunContext, play: AfterPlay) -> Column:
    """Return what each seat was shown next of the others' turns and of its tools."""
    known: dict[object, tuple[Tokens, Tokens]] = {}
    column: list[tuple[Predicted, ...] | None] = []
    for one in play.trajectories:
        if one.policy not in play.policies:
            column.append(None)
            continue
        lm, texts = play.policies[one.policy].lm, []
        role, wanted = context.roles[one.game][one.seat], _wanted(context, one.game, one.role)
        for shown in _shown(wanted, role, play.matches[one.match], one):
            key = one.policy, shown.source, shown.asked, shown.words
            if key not in known:
                known[key] = _encoded(lm, shown, context.config.prediction.most_tokens)
            if known[key][1]:
                texts.append(Predicted(shown.source, *known[key]))
        column.append(tuple(texts))
    return column


SOURCE = Source(predicted, asked=predicts)


def _shown(wanted: Sequence[str], role: Role, episode: Episode, trajectory: Trajectory) -> Iterator[Shown]:
    if "replies" in wanted:
        yield from of_others(role, episode)
    if "tools" in wanted:
        yield from of_tools(role, trajectory)


def of_others(role: Role, episode: Episode) -> Iterator[Shown]:
    """Yield what a role's seat was shown of each turn of another seat."""
    views = [at.observe(role.seat) for at in positions(make_game(role.game), episode)]
    for turn, before, after in zip(episode.turns, views[:-1], views[1:], strict=True):
        if turn.seat != role.seat and (words := new_words(before, after)):
            yield Shown("replies", (role, before), messages(predicting(role), before, ()), words)


def of_tools(role: Role, trajectory: Trajectory) -> Iterator[Shown]:
    """Yield what a role's seat was shown after each call of a tool."""
    for turn, following in zip(trajectory.turns[:-1], trajectory.turns[1:], strict=True):
        words = new_words(turn.observation, following.observation).removeprefix(turn.action or "").strip()
        if turn.tool and words:
            asked: list[Message] = [
                {"role": "assistant", "content": turn.reply},
                {"role": "user", "content": WHAT_RETURNS},
            ]
            chat = [*messages(role, turn.observation, turn.legal), *asked]
            yield Shown("tools", (role, turn.observation, turn.legal, turn.reply), chat, words)


def new_words(before: str, after: str) -> str:
    """Return the words of ``after`` between what it begins and what it ends with as ``before`` does."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - start
    end = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    return "".join(new[start : len(new) - end]).strip()


def _encoded(lm: LanguageModel, shown: Shown, most: int) -> tuple[Tokens, Tokens]:
    """Return the tokens of a prompt, and of what is to be predicted as far as the model's context reaches."""
    prompt, text = lm.encode_prompt(shown.chat), lm.encode_reply(shown.words)
    room = most if lm.context is None else min(most, lm.context - len(prompt))
    return prompt, text[: max(room, 0)]
