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

from arena.lm.chunks import Tokens
from arena.lm.language_model import LanguageModel

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
            logits = lm.reply_logits(chunk, [row.reply for row in rows])
            loss = (
                _imitation_loss(logits, [row.reply for row in chunk_rows], [drawn[row] for row in chunk_rows]) / tokens
            )
            loss.backward()
            loss_value += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        if on_step is not None:
            on_step(step, loss_value)
    return loss_value


def _imitation_loss(logits: torch.Tensor, replies: Sequence[Tokens], counts: Sequence[int]) -> torch.Tensor:
    """Return the cross-entropy of the replies, summed with their counts.  # logits [R, T, V]"""
    longest = logits.shape[1]
    targets = torch.tensor([[*reply, *[-100] * (longest - len(reply))] for reply in replies], device=logits.device)
    losses = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2).float(), targets, reduction="none", ignore_index=-100
    )
    return (losses.sum(1) * torch.tensor(counts, device=logits.device)).sum()
