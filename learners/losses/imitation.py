"""``imitation``: the cross-entropy of other players' replies, beside the policy gradient.

Behaviour cloning (Pomerleau 1991): L = (1 - w) L_policy - w (1 / N) sum_i log pi(y_i | prompt_i) over the N tokens of
the replies y that are drawn for an update, w the weight; a ``choice`` reply counts as one token.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from pydantic import Field, model_validator

from games.common.section import Count, Positive, Section, Share
from learners.batching import ChoiceRow, FreeRow
from learners.losses.given_rows import GivenRows, empty_choice, given_metrics, given_replies
from learners.losses.term import ImitatedReply, LossTerm, UpdateFacts

NAMES = ("imitation", "imitated_tokens")


class ImitationConfig(Section):
    """Imitation of others' matches, beside the policy gradient: behaviour cloning."""

    weight: Share = Field(
        0.0,
        description="share of imitation in an update's loss; the policy gradient has the rest; 0: off, 1: imitation "
        "alone",
    )
    matches: str = Field(
        "",
        description="file of `league export` or `league match --save`, or folder of `league lab import`, to imitate",
    )
    players: tuple[str, ...] = Field((), description="players whose replies are imitated; none: all players'")
    replies: Positive = Field(256, description="replies drawn for each update of a policy")
    since: Count = Field(0, description="until: the iteration after which the weight begins to fall")
    until: Positive | None = Field(
        None, description="iteration by which the weight has fallen linearly to 0; None: it stays"
    )

    @model_validator(mode="after")
    def _has_matches(self) -> ImitationConfig:
        if self.weight and not self.matches:
            raise ValueError(
                f"imitation.weight = {self.weight:g} needs matches to imitate. Name their file in imitation.matches, "
                "or set imitation.weight = 0."
            )
        return self


def draw_imitation(replies: Sequence[ImitatedReply], number: int, weight: float, seed: int) -> GivenRows:
    """Return ``number`` replies, drawn as often as they were given, as rows whose loss is ``weight`` nats a token.

    The same seed draws the same replies. Equal prompts are one row.
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
            key = reply.game, reply.prompt, reply.legal, reply.temperature
            row = choice.setdefault(key, empty_choice(*key))
            legal_index = reply.legal.index(reply.reply)
            row.counts[legal_index] += times
            row.weights[legal_index] += share
    return GivenRows(tuple(choice.values()), tuple(free))


def _free_row(reply: ImitatedReply, times: int, weight: float) -> FreeRow:
    return FreeRow(
        reply.game, reply.game, reply.prompt, reply.tokens, reply.temperature, float(times), weight, 0.0, 0.0
    )


def _rows(facts: UpdateFacts, settings: ImitationConfig) -> GivenRows | None:
    """Return the replies that an update imitates; None where there are none, or at weight 0."""
    if not facts.imitated or not settings.weight:
        return None
    return draw_imitation(facts.imitated, settings.replies, settings.weight, facts.seed_of("imitated replies"))


IMITATION = LossTerm(
    given_replies(NAMES),
    ImitationConfig,
    description="the cross-entropy of other players' replies",
    rows=_rows,
    metrics=given_metrics(NAMES),
)
