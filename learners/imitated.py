"""Replies of other players that a policy imitates beside its policy gradient, and the draw of those of one update."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from arena.lm.chunks import Tokens
from learners.batching import ChoiceRow, FreeRow, ImitationRows


class ImitatedReply(NamedTuple):
    """A prompt, and how another player replied to it."""

    game: str
    prompt: Tokens
    legal: tuple[str, ...]  # what a ``choice`` reply is masked to; () for a free one
    reply: str
    tokens: Tokens  # of a free reply, end token included; () for a choice
    temperature: float
    times: int  # that it was given


def draw_imitation(replies: Sequence[ImitatedReply], number: int, weight: float, seed: int) -> ImitationRows:
    """Return ``number`` replies, drawn as often as they were given, as rows whose loss is ``weight`` nats a token.

    The same seed draws the same ones. Equal prompts are one row.
    """
    drawn = Counter(random.Random(seed).choices(range(len(replies)), [reply.times for reply in replies], k=number))
    tokens = sum(times * max(len(replies[index].tokens), 1) for index, times in drawn.items())
    choice: dict[object, ChoiceRow] = {}
    free = []
    for index, times in sorted(drawn.items()):
        reply, share = replies[index], weight * times / tokens
        if reply.tokens:
            free.append(_free_row(reply, times, share))
        else:
            row = choice.setdefault((reply.game, reply.prompt, reply.legal, reply.temperature), _choice_row(reply))
            place = reply.legal.index(reply.reply)
            row.counts[place] += times
            row.weights[place] += share
    return ImitationRows(tuple(choice.values()), tuple(free))


def _choice_row(reply: ImitatedReply) -> ChoiceRow:
    counts, weights, gains, losses = ([0.0] * len(reply.legal) for _ in range(4))
    return ChoiceRow(
        reply.game, reply.game, reply.prompt, reply.legal, reply.temperature, counts, weights, gains, losses
    )


def _free_row(reply: ImitatedReply, times: int, weight: float) -> FreeRow:
    return FreeRow(
        reply.game, reply.game, reply.prompt, reply.tokens, reply.temperature, float(times), weight, 0.0, 0.0
    )
