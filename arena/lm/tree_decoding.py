"""A model's choices at very many prompts that begin alike: each token of their common tree is run once.

All prompts, each with the beginnings of its legal replies, make one tree of tokens. It is walked depth first, in
batches of nodes that stand beside each other at one depth; a node reads the keys and values of its path, and not one
token is run twice. What is kept are the keys and values of the path's batches, a bounded number of rows a depth.

The result is the one of asking each prompt by itself, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from arena.lm.chunks import Tokens
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import MASKED, tempered
from arena.lm.tensors import heads
from roles.trie import ReplyTrie

LEVEL_BYTES = 2**26  # keys and values that are kept of one batch of nodes
MOST_ROWS = 2048  # nodes in a batch, from which longer batches gain nothing

Array = NDArray[Any]


class _Batch(NamedTuple):
    """Nodes at one depth whose tokens were run; node b begins all sequences from ``starts[b]`` to the next start."""

    depth: int  # tokens behind the common prefix
    starts: Array  # [B]
    stop: int  # where the last node's sequences end
    layers: list[tuple[Tensor, Tensor]]  # keys and values of the nodes' paths, by layer: [B, G, depth, D] each


class _Part(NamedTuple):
    """Some children of a batch's nodes, which are run next."""

    parent: _Batch
    rows: Array  # of each child, its parent's place in the batch  # [C]
    starts: Array  # as a batch's  # [C]
    stop: int


class _Tree(NamedTuple):
    """Sequences in order, behind their common prefix."""

    order: Array  # which sequence stands at each place  # [S]
    tokens: Array  # [S, longest]
    lengths: Array  # [S]
    shared: Array  # with how many tokens a sequence begins as the one before it does; -1 for the first  # [S]


def tree_probabilities(
    lm: LanguageModel, prompts: Sequence[Tokens], tries: Sequence[ReplyTrie], temperature: float
) -> list[list[float]]:
    """Return the probability of each legal reply to each prompt, in the order of its trie's replies.

    Only for a model with plain attention (``lm.shares_prefix``). All logits of one batch of nodes are held at a time.
    """
    firsts = np.cumsum([0, *(len(trie.prefixes) for trie in tries)])
    sequences = [p + prefix for p, trie in zip(prompts, tries, strict=True) for prefix in trie.prefixes]
    branches = [allowed for trie in tries for allowed in trie.branches]
    nodes = _node_logprobs(lm, sequences, branches, temperature) if sequences else np.zeros((0, 1), np.float32)
    found: list[list[float]] = [[]] * len(prompts)
    alike: dict[int, list[int]] = {}
    for item, trie in enumerate(tries):
        alike.setdefault(id(trie), []).append(item)
    for items in alike.values():
        paths = tries[items[0]].paths
        own = nodes[firsts[items][:, None] + np.arange(len(tries[items[0]].prefixes))].astype(np.float64)  # [I, N, W]
        columns = [sum((own[:, n, branch] for n, branch in path), np.zeros(len(items))) for path in paths]
        for item, row in zip(items, np.exp(np.stack(columns, axis=1)), strict=True):
            found[item] = (row / row.sum()).tolist()
    return found


@torch.inference_mode()
def _node_logprobs(
    lm: LanguageModel, sequences: Sequence[Tokens], branches: Sequence[Tokens], temperature: float
) -> Array:
    """Return the masked log-probs of the tokens that may follow each sequence; MASKED beyond the last.  # [S, W]"""
    prefix = _common_prefix(sequences)
    tree = _tree([sequence[len(prefix) :] for sequence in sequences])
    kinds = {allowed: kind for kind, allowed in enumerate(dict.fromkeys(branches))}
    width = max(map(len, kinds))
    allowed = torch.tensor([[*row, *[-1] * (width - len(row))] for row in kinds], device=lm.device)  # [K, W]
    kind = np.array([kinds[row] for row in branches])[tree.order]
    found = np.empty((len(sequences), width), np.float32)
    inputs = lm.prefix_inputs(prefix)
    most = _rows(lm, tree.tokens.shape[1])
    waiting = _children(tree, _Batch(0, np.zeros(1, np.intp), len(sequences), []), most)
    while waiting:
        batch, logits = _run(lm, tree, waiting.pop(), len(prefix), inputs)
        ends, node = _ending(tree, batch)
        if len(ends):
            choice = allowed[kind[ends]]
            beyond = choice < 0
            scores = tempered(logits[node], temperature).gather(1, choice.clamp(min=0)).masked_fill(beyond, MASKED)
            found[tree.order[ends]] = scores.log_softmax(-1).masked_fill(beyond, MASKED).cpu().numpy()
        waiting += _children(tree, batch, most)
    return found


def _common_prefix(sequences: Sequence[Tokens]) -> Tokens:
    """Return what all sequences begin with, but one token less than the shortest."""
    low, high = min(sequences), max(sequences)
    most = min(map(len, sequences)) - 1
    same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return low[: min(same, most)]


def _tree(sequences: Sequence[Tokens]) -> _Tree:
    order = np.array(sorted(range(len(sequences)), key=sequences.__getitem__), dtype=np.intp)
    lengths = np.array([len(sequences[place]) for place in order.tolist()])
    inside = np.arange(lengths.max())[None] < lengths[:, None]
    tokens = np.full(inside.shape, -1, np.int64)
    tokens[inside] = np.fromiter((t for place in order.tolist() for t in sequences[place]), np.int64, lengths.sum())
    differs = np.ones((len(order), inside.shape[1] + 1), bool)
    differs[1:, :-1] = (tokens[1:] != tokens[:-1]) | ~inside[1:]
    shared = differs.argmax(axis=1)
    shared[0] = -1
    return _Tree(order, tokens, lengths, shared)


def _rows(lm: LanguageModel, longest: int) -> int:
    """Return how many nodes a batch may have."""
    config = lm.model.config
    _, groups, width = heads(config)
    size = next(lm.model.parameters()).element_size()
    path = 2 * int(config.num_hidden_layers) * groups * width * size * longest
    return int(min(max(LEVEL_BYTES // path, 1), MOST_ROWS))


def _children(tree: _Tree, batch: _Batch, most: int) -> list[_Part]:
    """Return what is to be run next behind a batch: of at most ``most`` nodes each, the first of them last."""
    places = np.arange(batch.starts[0], batch.stop)
    going = places[tree.lengths[places] > batch.depth]
    new = going[tree.shared[going] <= batch.depth]  # the first place of each child
    rows = np.searchsorted(batch.starts, new, side="right") - 1
    parts = []
    for first in range(0, len(new), most):
        after = first + most
        stop = int(new[after]) if after < len(new) else batch.stop
        parts.append(_Part(batch, rows[first:after], new[first:after], stop))
    return parts[::-1]


def _run(lm: LanguageModel, tree: _Tree, part: _Part, before: int, inputs: dict[str, Any]) -> tuple[_Batch, Tensor]:
    """Run the tokens of children up to where the first of them branches or ends; return also the logits there."""
    parent, rows, starts, stop = part
    places = np.arange(starts[0], stop)
    lengths, shared = tree.lengths[places], tree.shared[places]
    depth = int(min(lengths[lengths > parent.depth].min(), shared[shared > parent.depth].min(initial=2**31)))
    ids = torch.from_numpy(tree.tokens[starts, parent.depth : depth]).to(lm.device)
    index = torch.from_numpy(rows).to(lm.device)
    cache = DynamicCache([(keys[index], values[index]) for keys, values in parent.layers] or None)
    positions = torch.arange(before + parent.depth, before + depth, device=lm.device)[None].expand(len(starts), -1)
    lm.cost.add(ids.numel(), float(ids.numel() * (before + parent.depth + (depth - parent.depth + 1) / 2)), len(starts))
    output = lm.forward(
        input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1, **inputs
    )
    layers = [(layer.keys, layer.values) for layer in output.past_key_values.layers]
    return _Batch(depth, starts, stop, layers), output.logits[:, -1]


def _ending(tree: _Tree, batch: _Batch) -> tuple[Array, Array]:
    """Return the places of the sequences that end at a batch's nodes, and the node of each."""
    places = np.arange(batch.starts[0], batch.stop)
    ends = places[tree.lengths[places] == batch.depth]
    return ends, np.searchsorted(batch.starts, ends, side="right") - 1
