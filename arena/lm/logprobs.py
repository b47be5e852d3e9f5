"""Log-probs of tokens from hidden states, and of legal replies from logits at the branching nodes of their tries.

Logits are never held at all positions at once: with a vocabulary of 150,000, those of 8,192 positions take 5 GB in
single precision, and a softmax, its gradient and an entropy several times that. Positions go through the head in
chunks; a chunk's logits are dropped after its scores are computed, and recomputed in the backward pass.

Free replies may be truncated: by top-k, top-p (Holtzman et al., arXiv 1904.09751) and min-p (arXiv 2407.01082). Each
keeps the tokens above a threshold, in vLLM's order: min-p, then top-k, then top-p of what remains, renormalised. Tokens
that are equal at the threshold are all kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from arena.lm.tensors import to_device
from roles.trie import ReplyTrie
from roles.truncation import NO_TRUNCATION, Truncation

MAX_LOGITS = 1 << 25  # logits held at once, 128 MB in single precision; about five tensors of that size exist together
CPU_CACHE_SIZE = 1 << 18  # numbers in a processor's cache, 1 MB

MASKED = -1e9  # log-prob of a masked reply or token: finite, so that 0 * MASKED is 0 and not NaN

CUT_OFF = -1e9  # logit of a token that is cut off: finite, so that 0 * log 0 is 0 in entropies and gradients
FIRST_SORTED = 256  # tokens that are sorted for top-p; all of them only where these are not enough

Head = Callable[[Tensor], Tensor]  # states [n, H] -> logits [n, V]


class Scores(NamedTuple):
    """A model's scores of tokens, in nats; two tensors of one shape."""

    logprobs: Tensor  # log pi(token), after temperature and truncation
    entropy: Tensor  # of the distribution over the vocabulary at the token's position


class ScoreOptions(NamedTuple):
    """How tokens are scored."""

    temperature: float = 1.0
    entropy_gradient: bool = True  # False: the entropy is computed, but not differentiated
    truncation: Truncation = NO_TRUNCATION


def token_scores(
    head: Head,
    states: Tensor,
    targets: Tensor,
    options: ScoreOptions,
    vocabulary: int,
    max_logits: int = MAX_LOGITS,
) -> Scores:
    """Score ``targets`` [M] by the states [M, H] that predict them; ``vocabulary`` is its size.

    At most ``max_logits`` logits exist at a time, with gradients or without. If all fit, nothing is recomputed.
    """
    rows = max(max_logits // vocabulary, 1)
    if len(targets) <= rows:
        return Scores(*_score(head, states, targets, options))
    parts = [
        checkpoint(_score, head, states_part, targets_part, options, use_reentrant=False, preserve_rng_state=False)
        for states_part, targets_part in zip(states.split(rows), targets.split(rows), strict=True)
    ]
    logprobs, entropy = zip(*parts, strict=True)
    return Scores(torch.cat(logprobs), torch.cat(entropy))


def _score(head: Head, states: Tensor, targets: Tensor, options: ScoreOptions) -> tuple[Tensor, Tensor]:
    logits = head(states)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if options.temperature != 1.0:
        logits = logits / options.temperature
    logits = truncate(logits, options.truncation, targets)
    distributions = logits.log_softmax(-1)  # [m, V]
    logprobs = distributions.gather(1, targets[:, None])[:, 0]
    with torch.set_grad_enabled(torch.is_grad_enabled() and options.entropy_gradient):
        entropy = torch.cat([-torch.linalg.vecdot(part.exp(), part) for part in _blocks(distributions)])
    return logprobs, entropy


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """Return logits in single precision, divided by a temperature; where that is 1, without passing over them."""
    logits = logits.float()
    return logits if temperature == 1.0 else logits / temperature


def truncate(logits: Tensor, truncation: Truncation, targets: Tensor | None = None, *, waits: bool = True) -> Tensor:
    """Return logits [N, V], after temperature, with ``CUT_OFF`` for tokens that cannot be sampled.

    ``targets`` [N] are tokens that were sampled, and are kept: under other weights, or by rounding, they might be just
    below the threshold. Which tokens are kept has no gradient. Unless it ``waits`` for the device to see how many
    tokens need be sorted, all are.
    """
    if truncation == NO_TRUNCATION:
        return logits
    cut = logits < _threshold(logits.detach(), truncation, waits=waits)
    if targets is not None:
        cut = cut.scatter(1, targets[:, None], value=False)
    return logits.masked_fill(cut, CUT_OFF)


def _threshold(logits: Tensor, truncation: Truncation, *, waits: bool) -> Tensor:
    """Return the least logit that is kept.  # [N, 1]"""
    top_k, top_p, min_p = truncation
    low = logits.new_full((len(logits), 1), float("-inf"))
    if min_p > 0.0:
        low = logits.amax(1, keepdim=True) + log(min_p)
    if 0 < top_k < logits.shape[1]:
        low = torch.maximum(low, logits.topk(top_k).values[:, -1:])
    if top_p < 1.0:
        low = torch.maximum(low, _nucleus(logits.masked_fill(logits < low, CUT_OFF), top_p, waits=waits))
    return low


def _nucleus(logits: Tensor, top_p: float, *, waits: bool) -> Tensor:
    """Return the logit of the last token before which the more likely ones sum to less than ``top_p``.  # [N, 1]"""
    total = logits.logsumexp(1, keepdim=True)
    for width in (min(FIRST_SORTED, logits.shape[1]) if waits else logits.shape[1], logits.shape[1]):
        best = logits.topk(width).values
        probabilities = (best - total).exp().double()
        sums = probabilities.cumsum(1)
        if width == logits.shape[1] or bool((sums[:, -1] >= top_p).all()):
            break
    inside = (sums - probabilities < top_p).sum(1, keepdim=True)
    return best.gather(1, inside - 1)


def _blocks(distributions: Tensor) -> tuple[Tensor, ...]:
    """Split rows so that a block fits a processor's cache: going to memory takes longer than computing."""
    rows = (
        max(CPU_CACHE_SIZE // distributions.shape[1], 1) if distributions.device.type == "cpu" else len(distributions)
    )
    blocks: tuple[Tensor, ...] = distributions.split(rows)
    return blocks


class ChoiceLogprobs(NamedTuple):
    """Masked log-probs (nats) of a chunk of prompts with legal replies."""

    replies: Tensor  # [R, A] log pi(reply | prompt); MASKED beyond a row's last reply
    nodes: Tensor  # [N, W] log pi(branch | node), nodes of all rows in order; MASKED beyond a node's last branch


def choice_logprobs(logits: Tensor, tries: Sequence[ReplyTrie]) -> ChoiceLogprobs:
    """Turn logits [N, V] at all branching nodes of ``tries``, in order, into log-probs of replies.

    A trie with one reply has one node, whose logits do not matter.
    """
    branches = [allowed for trie in tries for allowed in trie.branches or (trie.tokens[0][:1],)]
    width = max(map(len, branches))
    index = to_device([(*allowed, *[0] * (width - len(allowed))) for allowed in branches], logits.device)
    nodes = logits.gather(1, index)
    if min(map(len, branches)) == width:
        nodes = nodes.log_softmax(-1)
    else:
        beyond = to_device([[False] * len(a) + [True] * (width - len(a)) for a in branches], logits.device)
        nodes = nodes.masked_fill(beyond, MASKED).log_softmax(-1).masked_fill(beyond, MASKED)
    if len(branches) == len(tries):  # one node a trie: its branches are the replies, in order
        return ChoiceLogprobs(nodes, nodes)
    return ChoiceLogprobs(_sum_paths(nodes, tries), nodes)


def _sum_paths(nodes: Tensor, tries: Sequence[ReplyTrie]) -> Tensor:
    """Return the sum of the nodes' log-probs along each reply's path.  # [R, A]"""
    width = nodes.shape[1]
    most = max(len(trie.replies) for trie in tries)
    depth = max(len(path) for trie in tries for path in trie.paths)
    forced, absent = nodes.numel(), nodes.numel() + 1  # indices of log 1 and log 0 in ``flat``
    rows, first = [], 0
    for trie in tries:
        slots = [[(first + node) * width + branch for node, branch in path] for path in trie.paths]
        row = [path + [forced] * (depth - len(path)) for path in slots]
        rows.append(row + [[absent] + [forced] * (depth - 1)] * (most - len(row)))
        first += len(trie.prefixes) or 1
    ends = nodes.new_tensor([0.0, MASKED])
    flat = torch.cat([nodes.reshape(-1), ends])
    return flat[to_device(rows, nodes.device)].sum(-1)
