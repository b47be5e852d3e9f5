"""What seats were shown next, of other seats' turns and of their own tools, for policies that learn to predict it.

Only the seat's own view is used: its view before another's turn is the question, and the words that are new in its view
afterwards are the answer. Where nothing is new, as when others move in secret, there is nothing to predict. The new
words include what chance reveals at the same moment, but not thoughts before a reply, since nobody sees them.
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

MOST_TOKENS = 128  # of one text that are predicted; the rest is left out
_WORDS = re.compile(r"\s*\S+|\s+$")


class Shown(NamedTuple):
    """Words that were new in a seat's view, and the chat that asks for them."""

    source: str  # of ``learners.trajectories.SOURCES``
    asked: tuple[object, ...]  # equal for equal chats
    chat: list[Message]
    words: str


def predicts(context: RunContext, game: str, role: str) -> bool:
    """Return whether a role learns to predict what it is shown."""
    return bool(_sources(context, game, role))


def _sources(context: RunContext, game: str, role: str) -> list[str]:
    terms = context.config.prediction.terms
    return [source for source, term in terms.items() if term.on and term.factor(game, role)]


def predicted(context: RunContext, play: AfterPlay) -> Column:
    """Return what each seat was shown next, of the others' turns and of its tools."""
    encoded: dict[object, tuple[Tokens, Tokens]] = {}
    column: list[tuple[Predicted, ...] | None] = []
    for trajectory in play.trajectories:
        if trajectory.policy not in play.policies:
            column.append(None)
            continue
        lm, texts = play.policies[trajectory.policy].lm, []
        role = context.roles[trajectory.game][trajectory.seat]
        sources = _sources(context, trajectory.game, trajectory.role)
        for shown in _shown(sources, role, play.matches[trajectory.match], trajectory):
            key = trajectory.policy, shown.source, shown.asked, shown.words
            if key not in encoded:
                encoded[key] = _encoded(lm, shown, MOST_TOKENS)
            if encoded[key][1]:
                texts.append(Predicted(shown.source, *encoded[key]))
        column.append(tuple(texts))
    return column


SOURCE = Source(predicted, asked=predicts)


def _shown(sources: Sequence[str], role: Role, episode: Episode, trajectory: Trajectory) -> Iterator[Shown]:
    if "replies" in sources:
        yield from of_others(role, episode)
    if "tools" in sources:
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
            question: list[Message] = [
                {"role": "assistant", "content": turn.reply},
                {"role": "user", "content": WHAT_RETURNS},
            ]
            chat = [*messages(role, turn.observation, turn.legal), *question]
            yield Shown("tools", (role, turn.observation, turn.legal, turn.reply), chat, words)


def new_words(before: str, after: str) -> str:
    """Return the words of ``after`` without the prefix and the suffix that it shares with ``before``."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - start
    end = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    return "".join(new[start : len(new) - end]).strip()


def _encoded(lm: LanguageModel, shown: Shown, most: int) -> tuple[Tokens, Tokens]:
    """Return the tokens of a prompt, and of the text to predict, cut to the model's context."""
    prompt, text = lm.encode_prompt(shown.chat), lm.encode_reply(shown.words)
    room = most if lm.context is None else min(most, lm.context - len(prompt))
    return prompt, text[: max(room, 0)]
