"""Cold start: supervised learning on demonstrators' replies, for models that do not know the game yet.

The loss is over the whole vocabulary, without a mask, so that the model learns the format of replies in either reply
form. From random play it learns which replies are legal, but not which are good.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from arena.lm.chunks import Chunk, Tokens
from arena.lm.language_model import LanguageModel
from arena.lm.tensors import to_device

MAX_TOKENS = 8192  # padded tokens in one forward and backward pass, by default


class Example(NamedTuple):
    """A prompt and a legal reply to it, end token included."""

    prompt: Tokens
    reply: Tokens


def cold_start(
    lm: LanguageModel,
    examples: Sequence[Example],
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    max_tokens: int = MAX_TOKENS,
    on_step: Callable[[int, float], None] | None = None,
) -> float:
    """Train on ``examples`` with AdamW and a cosine schedule; return the last step's loss (nats a token).

    With an adapter, only its own weights are trained. A pass has at most ``max_tokens`` padded tokens. ``on_step`` is
    called with each step's number and loss.
    """
    rng = random.Random(seed)
    parameters = list(lm.parameters().values())
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.01)
    warmup, loss_value = max(1, steps // 20), math.nan
    for step in range(steps):
        rate = min(1.0, (step + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * rate
        drawn = Counter(rng.choices(examples, k=batch_size))  # equal examples are one row with a count
        rows = list(drawn)
        tokens = sum(count * len(example.reply) for example, count in drawn.items())
        optimizer.zero_grad(set_to_none=True)
        loss_value = 0.0
        for chunk in lm.plan([row.prompt for row in rows], [(row.reply,) for row in rows], max_tokens):
            chunk_rows = [rows[i] for i in chunk.items]
            loss = _imitation_loss(lm, chunk, [(row.reply, drawn[row]) for row in chunk_rows]) / tokens
            loss.backward()
            loss_value += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        if on_step is not None:
            on_step(step, loss_value)
    return loss_value


def _imitation_loss(lm: LanguageModel, chunk: Chunk, replies: Sequence[tuple[Tokens, int]]) -> torch.Tensor:
    """Return the cross-entropy of a chunk's replies, summed with their counts."""
    keep = max(len(reply) for reply, _ in replies) + 1
    logits = lm.run(chunk, keep).logits.flatten(0, 1)  # [R keep, V], replies aligned right
    starts = [(row + 1) * keep - 1 - len(reply) for row, (reply, _) in enumerate(replies)]
    places = [start + n for start, (reply, _) in zip(starts, replies, strict=True) for n in range(len(reply))]
    losses = torch.nn.functional.cross_entropy(
        logits.index_select(0, to_device(places, logits.device)).float(),  # [M, V]
        to_device([token for reply, _ in replies for token in reply], logits.device),
        reduction="none",
    )
    return (losses * to_device([count for reply, count in replies for _ in reply], logits.device)).sum()
