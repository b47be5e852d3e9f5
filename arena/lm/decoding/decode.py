"""Free replies, decoded token by token; each distinct (prompt, reply so far) is computed once.

Requests with equal prompts and equal replies so far form one state. A state's next-token distribution is computed
once, each of its requests draws a token from its own generator, and the state splits where the tokens differ. If all
prompts differ, this is plain batched decoding.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from arena.lm.chunks import Tokens
from arena.lm.decoding.device_decoding import decode_on_device
from arena.lm.decoding.kv_cache import DecodingState, prefill
from arena.lm.decoding.stacked_pass import MOST_TOKENS
from arena.lm.decoding.static_batch import Sampling
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import tempered, truncate
from roles.truncation import NO_TRUNCATION, Truncation

BLOCK = 64  # tokens whose probabilities are summed before one of them is drawn


class Sampled(NamedTuple):
    """One sampled reply; its last token is the end token unless the length limit cut it."""

    reply_ids: Tokens  # [T]
    logprobs: tuple[float, ...]  # nats, after temperature and truncation  # [T]


class _Row(NamedTuple):
    """A request in a decoding batch."""

    request: int
    rng: random.Random
    ids: list[int]
    logprobs: list[float]


@torch.inference_mode()
def generate(
    lm: LanguageModel | Sequence[LanguageModel],
    prompts: Sequence[Tokens],
    rngs: Sequence[random.Random],
    *,
    temperature: float,
    max_tokens: int,
    max_batch_tokens: int,
    truncation: Truncation = NO_TRUNCATION,
) -> list[Sampled]:
    """Sample one reply of at most ``max_tokens`` for each prompt, from the prompt's own generator.

    A forward pass has at most ``max_batch_tokens`` padded tokens of prompts. A model for each prompt may be given where
    all are views on the same weights, which decode on the device.
    """
    lms = [lm] * len(prompts) if isinstance(lm, LanguageModel) else list(lm)
    if not lms:
        return []
    lm = lms[0]
    if lm.decodes_on_device:
        sampling = Sampling(temperature, truncation, lm.end_token)
        replies = decode_on_device(lms, prompts, rngs, sampling, max_tokens, max_batch_tokens)
        return [Sampled(*reply) for reply in replies]
    rows_of: dict[Tokens, list[_Row]] = {}
    for i, (prompt, rng) in enumerate(zip(prompts, rngs, strict=True)):
        rows_of.setdefault(prompt, []).append(_Row(i, rng, [], []))
    distinct = list(rows_of)
    rows: list[_Row] = []
    most = max_batch_tokens if lm.plain_pass() is None else min(max_batch_tokens, MOST_TOKENS)
    chunks = lm.plan(distinct, [((),)] * len(distinct), most)
    for items, decoding in prefill(lm, chunks, max_tokens - 1):
        states = [rows_of[distinct[i]] for i in items]
        _decode(decoding, states, (temperature, truncation), max_tokens, lm.end_token)
        rows += [row for state in states for row in state]
    rows.sort(key=lambda row: row.request)
    return [Sampled(tuple(row.ids), tuple(row.logprobs)) for row in rows]


def _decode(
    decoding: DecodingState, states: list[list[_Row]], sampling: tuple[float, Truncation], max_tokens: int, end: int
) -> None:
    """Decode all requests to their end at a temperature and truncation, filling the rows in place."""
    temperature, truncation = sampling
    for step in range(max_tokens):
        logits = truncate(tempered(decoding.logits, temperature), truncation)
        parents, tokens, states = _draw(states, logits, end)
        if not tokens or step == max_tokens - 1:
            return
        decoding.advance(parents, tokens)


def _draw(states: list[list[_Row]], logits: Tensor, end: int) -> tuple[list[int], list[int], list[list[_Row]]]:
    """Draw every request's next token; return the parent state, token and rows of each state that is not finished."""
    logprobs = logits.log_softmax(-1)  # [S, V]
    rows = [row for state in states for row in state]
    state_of = [s for s, state in enumerate(states) for _ in state]
    parents = torch.tensor(state_of, device=logits.device)
    numbers = torch.tensor([row.rng.random() for row in rows], dtype=torch.float64, device=logits.device)
    drawn = _inverted(logprobs, parents, numbers)
    tokens, chosen = torch.stack([drawn.double(), logprobs[parents, drawn].double()]).tolist()  # one wait for a GPU
    unfinished: dict[tuple[int, int], list[_Row]] = {}
    for row, state, token, logprob in zip(rows, state_of, map(int, tokens), chosen, strict=True):
        row.ids.append(token)
        row.logprobs.append(logprob)
        if token != end:
            unfinished.setdefault((state, token), []).append(row)
    return [state for state, _ in unfinished], [token for _, token in unfinished], list(unfinished.values())


def _inverted(logprobs: Tensor, parents: Tensor, numbers: Tensor) -> Tensor:
    """Return the token that each number in [0, 1) draws from its parent's distribution.  # [S, V], [R], [R] -> [R]

    It is the first whose cumulated probability exceeds the number's share of their sum. Probabilities are cumulated
    over blocks of tokens, and within the block that is drawn: over all tokens of all states it would take far longer.
    """
    states, vocabulary = logprobs.shape
    blocks = -(-vocabulary // BLOCK)
    probabilities = logprobs.new_empty(states, blocks * BLOCK)
    probabilities[:, vocabulary:] = 0.0
    torch.exp(logprobs, out=probabilities[:, :vocabulary])
    probabilities = probabilities.view(states, blocks, BLOCK)
    of_blocks = probabilities.sum(-1).double()  # [S, blocks]
    cumulated = of_blocks.cumsum(-1)[parents]
    points = numbers * cumulated[:, -1]
    block = torch.searchsorted(cumulated, points[:, None], right=True)[:, 0].clamp(max=blocks - 1)
    size = of_blocks[parents, block]
    share = (points - cumulated.gather(1, block[:, None])[:, 0] + size) / size
    within = probabilities[parents, block].double().cumsum(-1)  # [R, BLOCK]
    drawn = torch.searchsorted(within, (share * within[:, -1])[:, None], right=True)[:, 0].clamp(max=BLOCK - 1)
    return (block * BLOCK + drawn).clamp(max=vocabulary - 1)
