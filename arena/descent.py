"""A legal reply drawn node by node along its token trie, by asking for one node's distribution at a time."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from math import exp, fsum, log

from arena.chunks import Tokens
from roles.trie import ReplyTrie

Node = Callable[[Tokens, Tokens], Awaitable[Sequence[float]]]


async def descend(trie: ReplyTrie, node: Node, rng: random.Random) -> tuple[int, tuple[float, ...]]:
    """Return a reply's number, and the log-prob (nats) of each of its tokens; forced ones have 0.

    ``node`` takes the reply's tokens so far and those that may follow, and returns the masked log-prob of
    each. One number of ``rng`` is drawn at every branching node on the way.
    """
    open_replies = list(range(len(trie.replies)))
    logprobs: dict[int, float] = {}  # by place
    for prefix, allowed in zip(trie.prefixes, trie.branches, strict=True):
        place = len(prefix)
        if trie.tokens[open_replies[0]][:place] == prefix and len(open_replies) > 1:
            masked = await node(prefix, allowed)
            branch = _drawn(masked, rng)
            logprobs[place] = masked[branch]
            open_replies = [one for one in open_replies if trie.tokens[one][place] == allowed[branch]]
    [reply] = open_replies
    return reply, tuple(logprobs.get(place, 0.0) for place in range(len(trie.tokens[reply])))


def tempered(logprobs: Sequence[float], temperature: float) -> tuple[float, ...]:
    """Return log softmax(log-probs / temperature).  # [A]"""
    most = max(logprobs)
    scaled = [(one - most) / temperature for one in logprobs]
    total = log(fsum(map(exp, scaled)))
    return tuple(one - total for one in scaled)


def _drawn(logprobs: Sequence[float], rng: random.Random) -> int:
    cumulated = list(accumulate(map(exp, logprobs)))
    return min(bisect_right(cumulated, rng.random() * cumulated[-1]), len(cumulated) - 1)
