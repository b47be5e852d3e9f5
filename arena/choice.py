"""Masked log-probs of legal replies from the logits at the branching nodes of their tries. Pure torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from roles.trie import ReplyTrie

MASKED = -1e9  # log-prob of what a mask forbids: finite, so that 0 * MASKED is 0 and not NaN


class ChoiceLogprobs(NamedTuple):
    """Masked log-probs (nats) of a chunk of prompts with legal replies."""

    replies: Tensor  # [R, A] log pi(reply | prompt); MASKED beyond a row's own replies
    nodes: Tensor  # [N, W] log pi(branch | node), nodes of all rows in order; MASKED beyond a node's branches


def choice_logprobs(logits: Tensor, tries: Sequence[ReplyTrie]) -> ChoiceLogprobs:
    """Turn logits [N, V] at all branching nodes of ``tries``, in order, into log-probs of replies.

    A trie with nothing to choose has one node, whose logits do not matter.
    """
    branches = [allowed for trie in tries for allowed in trie.branches or (trie.tokens[0][:1],)]
    width = max(map(len, branches))
    index = torch.tensor([(*allowed, *[0] * (width - len(allowed))) for allowed in branches], device=logits.device)
    beyond = torch.tensor([[False] * len(a) + [True] * (width - len(a)) for a in branches], device=logits.device)
    nodes = logits.gather(1, index).masked_fill(beyond, MASKED).log_softmax(-1)
    nodes = nodes.masked_fill(beyond, MASKED)
    if len(branches) == len(tries):  # one node each: its branches are the replies, in order
        return ChoiceLogprobs(nodes, nodes)
    return ChoiceLogprobs(_sum_paths(nodes, tries), nodes)


def _sum_paths(nodes: Tensor, tries: Sequence[ReplyTrie]) -> Tensor:
    """Return the sum of the nodes' log-probs along each reply's path.  # [R, A]"""
    width = nodes.shape[1]
    most = max(len(trie.replies) for trie in tries)
    depth = max(len(path) for trie in tries for path in trie.paths)
    forced, absent = nodes.numel(), nodes.numel() + 1  # slots that hold log 1 and log 0
    rows, first = [], 0
    for trie in tries:
        slots = [[(first + node) * width + branch for node, branch in path] for path in trie.paths]
        row = [own + [forced] * (depth - len(own)) for own in slots]
        rows.append(row + [[absent] + [forced] * (depth - 1)] * (most - len(row)))
        first += len(trie.prefixes) or 1
    ends = nodes.new_tensor([0.0, MASKED])
    flat = torch.cat([nodes.reshape(-1), ends])
    return flat[torch.tensor(rows, device=nodes.device)].sum(-1)
