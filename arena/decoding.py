"""Free replies: token by token, each distinct (prompt, reply so far) computed once.

Requests that still share everything form one state. A state's next-token distribution is computed
once, every request in it draws its own token from its own stream, and the requests part only where
their tokens do. Where all prompts differ this is plain batched decoding.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from arena.chunks import Chunk, Tokens, plan_chunks
from arena.lm import LanguageModel


class Sampled(NamedTuple):
    """One sampled reply; the end token is its last unless the length limit cut it."""

    reply_ids: Tokens  # [T]
    logprobs: tuple[float, ...]  # nats, after temperature  # [T]


class _Row(NamedTuple):
    """A request in a decoding batch."""

    request: int
    rng: random.Random
    ids: list[int]
    logprobs: list[float]


@torch.inference_mode()
def generate(
    lm: LanguageModel,
    prompts: Sequence[Tokens],
    rngs: Sequence[random.Random],
    *,
    temperature: float,
    max_tokens: int,
    budget: int,
) -> list[Sampled]:
    """Sample one reply for each prompt, drawing from that prompt's own generator."""
    asking: dict[Tokens, list[_Row]] = {}
    for i, (prompt, rng) in enumerate(zip(prompts, rngs, strict=True)):
        asking.setdefault(prompt, []).append(_Row(i, rng, [], []))
    distinct = list(asking)
    rows: list[_Row] = []
    for chunk in plan_chunks(distinct, [((),)] * len(distinct), budget):
        states = [asking[distinct[i]] for i in chunk.items]
        _decode_chunk(lm, chunk, states, temperature, max_tokens)
        rows += [row for state in states for row in state]
    rows.sort(key=lambda row: row.request)
    return [Sampled(tuple(row.ids), tuple(row.logprobs)) for row in rows]


def _decode_chunk(
    lm: LanguageModel, chunk: Chunk, states: list[list[_Row]], temperature: float, max_tokens: int
) -> None:
    """Decode all requests of one chunk to their end; fills the rows in place."""
    decoding = lm.prefill(chunk)
    for step in range(max_tokens):
        parents, tokens, states = _draw(states, decoding.logits / temperature, lm.end_token)
        if not tokens or step == max_tokens - 1:
            return
        decoding.advance(parents, tokens)


def _draw(states: list[list[_Row]], logits: Tensor, end: int) -> tuple[list[int], list[int], list[list[_Row]]]:
    """Draw every request's next token; return parent state, token and rows of each state that goes on."""
    state_of = torch.tensor([s for s, rows in enumerate(states) for _ in rows], device=logits.device)
    rows = [row for state in states for row in state]
    logprobs = logits.float().log_softmax(-1)  # [S, V]
    cumulated = logprobs.double().exp().cumsum(-1)
    points = torch.tensor([row.rng.random() for row in rows], dtype=torch.float64, device=logits.device)
    bounds = cumulated[state_of]  # [R, V]
    drawn = torch.searchsorted(bounds, (points * bounds[:, -1])[:, None], right=True)[:, 0]
    drawn = drawn.clamp(max=logits.shape[1] - 1)
    chosen = logprobs[state_of, drawn].tolist()
    going: dict[tuple[int, int], list[_Row]] = {}
    for row, state, token, logprob in zip(rows, state_of.tolist(), drawn.tolist(), chosen, strict=True):
        row.ids.append(token)
        row.logprobs.append(logprob)
        if token != end:
            going.setdefault((state, token), []).append(row)
    return [state for state, _ in going], [token for _, token in going], list(going.values())
