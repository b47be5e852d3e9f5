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
            f"Two of the legal replies {list(replies)} have the same tokens; replies must differ in their tokens."
        )
    following: list[dict[int, int]] = [{}]  # of each node, by token: the node to which it leads
    for reply_tokens in tokens:
        node = 0
        for token in reply_tokens:
            if token not in following[node]:
                following[node][token] = len(following)
                following.append({})
            node = following[node][token]
    passed = [_branching(reply_tokens, following) for reply_tokens in tokens]
    # By depth, then in the order of the replies: nodes were made in it.
    places = sorted({(depth, node): reply for reply, nodes in enumerate(passed) for node, depth in nodes}.items())
    number = {node: place for place, ((_, node), _) in enumerate(places)}
    branches = tuple(tuple(following[node]) for (_, node), _ in places)
    branch_of = [{token: at for at, token in enumerate(allowed)} for allowed in branches]
    paths = tuple(
        tuple((number[node], branch_of[number[node]][reply_tokens[depth]]) for node, depth in nodes)
        for reply_tokens, nodes in zip(tokens, passed, strict=True)
    )
    prefixes = tuple(tokens[reply][:depth] for (depth, _), reply in places)
    return ReplyTrie(tuple(replies), tokens, prefixes, branches, paths)


def _branching(reply_tokens: Sequence[int], following: Sequence[dict[int, int]]) -> list[tuple[int, int]]:
    """Return the branching nodes on a reply's path, each with its depth."""
    node, nodes = 0, []
    for depth, token in enumerate(reply_tokens):
        if len(following[node]) > 1:
            nodes.append((node, depth))
        node = following[node][token]
    return nodes


def token_logprobs(trie: ReplyTrie, node_logprobs: Sequence[Sequence[float]], reply: int) -> tuple[float, ...]:
    """Spread a reply's log-probs (nats) over its tokens: forced tokens have exactly 0.

    ``node_logprobs[n][b]`` is the masked log-prob of branch b at node n.
    """
    spread = [0.0] * len(trie.tokens[reply])
    for node, branch in trie.paths[reply]:
        spread[len(trie.prefixes[node])] = node_logprobs[node][branch]
    return tuple(spread)
