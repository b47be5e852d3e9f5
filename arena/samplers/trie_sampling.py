"""Sampling of a legal reply node by node along the token trie, from one node's distribution at a time."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from math import exp, fsum, log

from arena.lm.chunks import Tokens
from roles.trie import ReplyTrie

Node = Callable[[Tokens, Tokens], Awaitable[Sequence[float]]]


async def sample_on_trie(trie: ReplyTrie, node: Node, rng: random.Random) -> tuple[int, tuple[float, ...]]:
    """Return a reply's index, and the log-prob (nats) of each of its tokens; a forced token has 0.

    ``node`` takes the reply's tokens so far and the tokens that may follow, and returns the masked log-prob of
    each. One number of ``rng`` is drawn at every branching node of the path.
    """
    open_replies = list(range(len(trie.replies)))
    logprobs: dict[int, float] = {}  # by position
    for prefix, allowed in zip(trie.prefixes, trie.branches, strict=True):
        position = len(prefix)
        if trie.tokens[open_replies[0]][:position] == prefix:  # then two open replies or more begin with it
            masked = await node(prefix, allowed)
            branch = _draw(masked, rng)
            logprobs[position] = masked[branch]
            open_replies = [i for i in open_replies if trie.tokens[i][position] == allowed[branch]]
    [reply] = open_replies
    return reply, tuple(logprobs.get(position, 0.0) for position in range(len(trie.tokens[reply])))


def tempered(logprobs: Sequence[float], temperature: float) -> tuple[float, ...]:
    """Return log softmax(log-probs / temperature).  # [A]"""
    largest = max(logprobs)
    scaled = [(logprob - largest) / temperature for logprob in logprobs]
    total = log(fsum(map(exp, scaled)))
    return tuple(value - total for value in scaled)


def _draw(logprobs: Sequence[float], rng: random.Random) -> int:
    cumulated = list(accumulate(map(exp, logprobs)))
    return min(bisect_right(cumulated, rng.random() * cumulated[-1]), len(cumulated) - 1)
