"""The token trie of legal replies, the mask under which ``choice`` replies are sampled and trained.

A node branches where two or more legal replies continue differently. Everywhere else the next token is
forced, so its probability under the mask is exactly 1 and needs no model:

    log pi(reply) = sum over the branching nodes on its path of log softmax(logits[allowed])[taken]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class ReplyTrie(NamedTuple):
    """The trie of ``replies`` (A replies, N branching nodes). Nodes are ordered parents first."""

    replies: tuple[str, ...]  # [A]
    tokens: tuple[tuple[int, ...], ...]  # token ids of each reply, end token last  # [A][T]
    prefixes: tuple[tuple[int, ...], ...]  # reply tokens that lead to each branching node  # [N][<T]
    branches: tuple[tuple[int, ...], ...]  # tokens allowed at each node  # [N][>=2]
    paths: tuple[tuple[tuple[int, int], ...], ...]  # (node, branch) pairs of each reply  # [A]


def build_trie(replies: Sequence[str], encode: Callable[[str], Sequence[int]], end_token: int) -> ReplyTrie:
    """Return the trie of ``replies`` under a tokenizer's ``encode``; each ends with ``end_token``.

    Raises ValueError when two replies have the same tokens, since they could not be distinguished.
    """
    tokens = tuple((*encode(reply), end_token) for reply in replies)
    if len(set(tokens)) < len(tokens):
        raise ValueError(
            f"Two of the legal replies {list(replies)} have the same tokens; they must differ to be distinguished."
        )
    following: dict[tuple[int, ...], list[int]] = {}
    for reply_tokens in tokens:
        for depth, token in enumerate(reply_tokens):
            allowed = following.setdefault(reply_tokens[:depth], [])
            if token not in allowed:
                allowed.append(token)
    prefixes = tuple(sorted((p for p, allowed in following.items() if len(allowed) > 1), key=len))
    node_of = {prefix: node for node, prefix in enumerate(prefixes)}
    paths = tuple(
        tuple(
            (node_of[reply_tokens[:depth]], following[reply_tokens[:depth]].index(token))
            for depth, token in enumerate(reply_tokens)
            if reply_tokens[:depth] in node_of
        )
        for reply_tokens in tokens
    )
    return ReplyTrie(tuple(replies), tokens, prefixes, tuple(tuple(following[p]) for p in prefixes), paths)


def token_logprobs(trie: ReplyTrie, node_logprobs: Sequence[Sequence[float]], reply: int) -> tuple[float, ...]:
    """Spread a reply's log-probs (nats) over its tokens: forced tokens have exactly 0.

    ``node_logprobs[n][b]`` is the masked log-prob of branch b at node n.
    """
    spread = [0.0] * len(trie.tokens[reply])
    for node, branch in trie.paths[reply]:
        spread[len(trie.prefixes[node])] = node_logprobs[node][branch]
    return tuple(spread)
