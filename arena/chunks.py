"""Which token sequences go through a model together, so that nothing is computed twice.

Prompts are grouped by a shared prefix that is worth computing once, then cut into chunks by a token
budget. One prompt may have several continuations (the branching nodes of its reply trie); they are
never split over chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

GROUP_COST = 192  # tokens that one more forward pass must save before a group of its own is worth it

Tokens = tuple[int, ...]


class Chunk(NamedTuple):
    """Prompts that run as one batch behind one shared prefix."""

    prefix: Tokens  # [P], computed once; may be empty
    items: tuple[int, ...]  # which prompts
    suffixes: tuple[Tokens, ...]  # what follows the prefix: every continuation of every item, in order


def plan_chunks(
    prompts: Sequence[Tokens], continuations: Sequence[Sequence[Tokens]], budget: int, *, share: bool = True
) -> list[Chunk]:
    """Return chunks that hold every prompt once, each of at most ``budget`` padded suffix tokens.

    At least one token of a prompt stays in its suffixes, so that its logits come out. A prompt whose
    continuations exceed the budget makes a chunk by itself. Without ``share`` every prefix is empty.
    """
    if not prompts:
        return []
    chunks = []
    for prefix, items in prefix_groups(prompts, GROUP_COST) if share else [((), _in_order(prompts))]:
        suffixes = [(i, [(prompts[i] + c)[len(prefix) :] for c in continuations[i]]) for i in items]
        chunks += _cut(prefix, suffixes, budget)
    return chunks


def prefix_groups(prompts: Sequence[Tokens], cost: int) -> list[tuple[Tokens, list[int]]]:
    """Return groups of prompts, in order, with the prefix that each shares; a group of its own costs ``cost`` tokens.

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
    """Return how many tokens two prompts share from the start."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _groups(shared: Sequence[int], start: int, stop: int, cost: int) -> list[tuple[int, int]]:
    """Split [start, stop) wherever the parts' own prefixes save more than a common one does."""
    if stop - start == 1:
        return [(start, stop)]
    inner = shared[start + 1 : stop]
    least = min(inner)
    cuts = [start, *(start + 1 + k for k, n in enumerate(inner) if n == least), stop]
    parts = list(pairwise(cuts))
    gain = sum((b - a - 1) * min(shared[a + 1 : b], default=0) - cost for a, b in parts) + cost
    if gain <= (stop - start - 1) * least:
        return [(start, stop)]
    return [group for a, b in parts for group in _groups(shared, a, b, cost)]


def _cut(prefix: Tokens, items: list[tuple[int, list[Tokens]]], budget: int) -> list[Chunk]:
    """Cut one group into chunks; items of similar length stay together to keep padding small."""
    items.sort(key=lambda item: max(map(len, item[1])))
    chunks: list[Chunk] = []
    members: list[int] = []
    suffixes: list[Tokens] = []
    for index, own in items:
        if members and max(map(len, own)) * (len(suffixes) + len(own)) > budget:
            chunks.append(Chunk(prefix, tuple(members), tuple(suffixes)))
            members, suffixes = [], []
        members.append(index)
        suffixes += own
    return [*chunks, Chunk(prefix, tuple(members), tuple(suffixes))]
