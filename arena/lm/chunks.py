"""Groups token sequences into chunks that go through a model together, so that nothing is computed twice.

Prompts are grouped by a shared prefix that is worth computing once, then split into chunks of a bounded number of
tokens. A prompt may have several continuations (the branching nodes of its reply trie), which stay in one chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

GROUP_COST = 192  # tokens that a separate group must save to be worth one more forward pass

Tokens = tuple[int, ...]


class Chunk(NamedTuple):
    """Prompts that run as one batch behind one shared prefix."""

    prefix: Tokens  # [P], computed once; may be empty
    items: tuple[int, ...]  # the prompts' indices
    suffixes: tuple[Tokens, ...]  # behind the prefix: every continuation of every item, in order


def tokens_of(chunks: Sequence[Chunk], *, prefixes: bool = True) -> tuple[int, float]:
    """Return how many tokens chunks have, and how many these attend to all together."""
    tokens, attended = 0, 0.0
    for prefix, _, suffixes in chunks:
        before = len(prefix)
        if prefixes:
            tokens += before
            attended += before * (before + 1) / 2
        for suffix in suffixes:
            tokens += len(suffix)
            attended += len(suffix) * (before + (len(suffix) + 1) / 2)
    return tokens, attended


def plan_chunks(
    prompts: Sequence[Tokens],
    continuations: Sequence[Sequence[Tokens]],
    max_tokens: int,
    *,
    share: bool = True,
    cost: int = GROUP_COST,
) -> list[Chunk]:
    """Return chunks that hold every prompt once, each of at most ``max_tokens`` padded suffix tokens.

    A further group of prompts behind a prefix of its own costs as much as ``cost`` tokens.

    At least one token of a prompt stays in its suffixes, so that its logits are computed. A prompt whose
    continuations have more than ``max_tokens`` is a chunk by itself. Without ``share`` every prefix is empty.
    """
    if not prompts:
        return []
    chunks = []
    for prefix, items in prefix_groups(prompts, cost) if share else [((), _in_order(prompts))]:
        suffixes = [(i, [(prompts[i] + c)[len(prefix) :] for c in continuations[i]]) for i in items]
        chunks += _split(prefix, suffixes, max_tokens)
    return chunks


def prefix_groups(prompts: Sequence[Tokens], cost: int) -> list[tuple[Tokens, list[int]]]:
    """Return groups of prompts, in order, with the prefix that each shares; a further group costs ``cost`` tokens.

    At least one token of every prompt is not in its prefix.
    """
    order = _in_order(prompts)
    ordered = [prompts[i] for i in order]
    shared = [0, *(_common_prefix(a, b) for a, b in pairwise(ordered))]
    groups = []
    for start, stop in _groups(shared, 0, len(order), cost) if prompts else []:
        limit = min(len(prompt) for prompt in ordered[start:stop]) - 1
        prefix = ordered[start][: min([limit, *shared[start + 1 : stop]])] if stop - start > 1 else ()
        groups.append((prefix, order[start:stop]))
    return groups


def _in_order(prompts: Sequence[Tokens]) -> list[int]:
    return sorted(range(len(prompts)), key=prompts.__getitem__)


def _common_prefix(a: Tokens, b: Tokens) -> int:
    """Return the length of the longest common prefix."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _groups(shared: Sequence[int], start: int, stop: int, cost: int) -> list[tuple[int, int]]:
    """Split [start, stop) wherever the prefixes of its parts save more tokens than a common one."""
    if stop - start == 1:
        return [(start, stop)]
    inner = shared[start + 1 : stop]
    shortest = min(inner)
    cuts = [start, *(start + 1 + k for k, n in enumerate(inner) if n == shortest), stop]
    parts = list(pairwise(cuts))
    gain = sum((b - a - 1) * min(shared[a + 1 : b], default=0) - cost for a, b in parts) + cost
    if gain <= (stop - start - 1) * shortest:
        return [(start, stop)]
    return [group for a, b in parts for group in _groups(shared, a, b, cost)]


def _split(prefix: Tokens, items: list[tuple[int, list[Tokens]]], max_tokens: int) -> list[Chunk]:
    """Split one group into chunks; items of similar length stay together to keep padding small."""
    items.sort(key=lambda item: max(map(len, item[1])))
    chunks: list[Chunk] = []
    indices: list[int] = []
    suffixes: list[Tokens] = []
    for index, item_suffixes in items:
        if indices and max(map(len, item_suffixes)) * (len(suffixes) + len(item_suffixes)) > max_tokens:
            chunks.append(Chunk(prefix, tuple(indices), tuple(suffixes)))
            indices, suffixes = [], []
        indices.append(index)
        suffixes += item_suffixes
    return [*chunks, Chunk(prefix, tuple(indices), tuple(suffixes))]
