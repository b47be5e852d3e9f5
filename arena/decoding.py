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

from arena.chunks import Tokens
from arena.lm import LanguageModel
from arena.steps import Steps, begin


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
    chunks = lm.plan(distinct, [((),)] * len(distinct), budget)
    for items, steps in begin(lm, chunks, max_tokens - 1):
        states = [asking[distinct[i]] for i in items]
        _decode(steps, states, temperature, max_tokens, lm.end_token)
        rows += [row for state in states for row in state]
    rows.sort(key=lambda row: row.request)
    return [Sampled(tuple(row.ids), tuple(row.logprobs)) for row in rows]


def _decode(steps: Steps, states: list[list[_Row]], temperature: float, max_tokens: int, end: int) -> None:
    """Decode all requests to their end; fills the rows in place."""
    for step in range(max_tokens):
        parents, tokens, states = _draw(states, steps.logits.float() / temperature, end)
        if not tokens or step == max_tokens - 1:
            return
        steps.advance(parents, tokens)


def _draw(states: list[list[_Row]], logits: Tensor, end: int) -> tuple[list[int], list[int], list[list[_Row]]]:
    """Draw every request's next token; return parent state, token and rows of each state that goes on."""
    logprobs = logits.log_softmax(-1)  # [S, V]
    cumulated = logprobs.exp().cumsum(-1, dtype=torch.float64)
    state_of = [s for s, rows in enumerate(states) for _ in rows]
    rows = [row for state in states for row in state]
    points = torch.tensor([row.rng.random() for row in rows], dtype=torch.float64, device=logits.device)
    if len(rows) > len(states):
        place = torch.tensor(state_of, device=logits.device)
        logprobs, cumulated = logprobs[place], cumulated[place]  # [R, V]
    drawn = torch.searchsorted(cumulated, (points * cumulated[:, -1])[:, None], right=True)
    drawn = drawn.clamp(max=logits.shape[1] - 1)
    chosen = logprobs.gather(1, drawn)[:, 0].tolist()
    going: dict[tuple[int, int], list[_Row]] = {}
    for row, state, token, logprob in zip(rows, state_of, drawn[:, 0].tolist(), chosen, strict=True):
        row.ids.append(token)
        row.logprobs.append(logprob)
        if token != end:
            going.setdefault((state, token), []).append(row)
    return [state for state, _ in going], [token for _, token in going], list(going.values())
