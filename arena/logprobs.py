"""Log-probs of tokens from hidden states, without ever holding the vocabulary's logits at all positions.

With a vocabulary of 150,000 the logits of 8,192 positions take 5 GB in single precision, and a softmax, its
gradient and an entropy several times that. Here positions go through the head in chunks; a chunk's logits are
dropped once its numbers are known, and computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

HELD = 1 << 25  # logits held at once, 128 MB in single precision; some five tensors of that size are alive together
CACHED = 1 << 18  # numbers that a processor's cache holds, 1 MB

Head = Callable[[Tensor], Tensor]  # states [n, H] -> logits [n, V]


class Scores(NamedTuple):
    """What a model says of tokens, in nats; two tensors of one shape."""

    logprobs: Tensor  # log pi(token), after temperature
    entropy: Tensor  # of the whole distribution that the token is from


class Asked(NamedTuple):
    """How tokens are scored."""

    temperature: float = 1.0
    entropy_gradient: bool = True  # without one, entropy costs a look and no backward pass


def token_scores(head: Head, states: Tensor, targets: Tensor, asked: Asked, width: int, held: int = HELD) -> Scores:
    """Score ``targets`` [M] by the states [M, H] that predict them; ``width`` is the vocabulary's size.

    No more than ``held`` logits are there at a time, with gradients or without. Where all fit, nothing is
    computed twice.
    """
    rows = max(held // width, 1)
    if len(targets) <= rows:
        return Scores(*_score(head, states, targets, asked))
    parts = [
        checkpoint(_score, head, own, wanted, asked, use_reentrant=False, preserve_rng_state=False)
        for own, wanted in zip(states.split(rows), targets.split(rows), strict=True)
    ]
    logprobs, entropy = zip(*parts, strict=True)
    return Scores(torch.cat(logprobs), torch.cat(entropy))


def _score(head: Head, states: Tensor, targets: Tensor, asked: Asked) -> tuple[Tensor, Tensor]:
    logits = head(states)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if asked.temperature != 1.0:
        logits = logits / asked.temperature
    distributions = logits.log_softmax(-1)  # [m, V]
    logprobs = distributions.gather(1, targets[:, None])[:, 0]
    with torch.set_grad_enabled(torch.is_grad_enabled() and asked.entropy_gradient):
        entropy = torch.cat([-torch.linalg.vecdot(part.exp(), part) for part in _blocks(distributions)])
    return logprobs, entropy


def _blocks(distributions: Tensor) -> tuple[Tensor, ...]:
    """Split rows so that a processor's cache holds a block's numbers: going to memory takes longer than computing."""
    rows = max(CACHED // distributions.shape[1], 1) if distributions.device.type == "cpu" else len(distributions)
    blocks: tuple[Tensor, ...] = distributions.split(rows)
    return blocks
