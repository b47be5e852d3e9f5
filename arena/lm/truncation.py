"""Truncated next-token distributions: top-k, top-p (Holtzman et al., arXiv 1904.09751) and min-p (arXiv 2407.01082).

All three keep the tokens above a threshold: the order is that of vLLM, min-p, then top-k, then top-p of what remains,
renormalised. Tokens that are equal at the threshold are all kept.
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from roles.truncation import NO_TRUNCATION, Truncation

CUT_OFF = -1e9  # logit of a token that is cut off: finite, so that 0 * log 0 is 0 in entropies and gradients
FIRST_SORTED = 256  # tokens that are sorted for top-p; all of them only where these are not enough


def truncate(logits: Tensor, truncation: Truncation, targets: Tensor | None = None) -> Tensor:
    """Return logits [N, V], after temperature, with ``CUT_OFF`` for tokens that cannot be sampled.

    ``targets`` [N] are tokens that were sampled, and are kept: under other weights, or by rounding, they might be just
    below the threshold. Which tokens are kept has no gradient.
    """
    if truncation == NO_TRUNCATION:
        return logits
    cut = logits < _threshold(logits.detach(), truncation)
    if targets is not None:
        cut = cut.scatter(1, targets[:, None], value=False)
    return logits.masked_fill(cut, CUT_OFF)


def _threshold(logits: Tensor, truncation: Truncation) -> Tensor:
    """Return the least logit that is kept.  # [N, 1]"""
    top_k, top_p, min_p = truncation
    low = logits.new_full((len(logits), 1), float("-inf"))
    if min_p > 0.0:
        low = logits.amax(1, keepdim=True) + log(min_p)
    if 0 < top_k < logits.shape[1]:
        low = torch.maximum(low, logits.topk(top_k).values[:, -1:])
    if top_p < 1.0:
        low = torch.maximum(low, _nucleus(logits.masked_fill(logits < low, CUT_OFF), top_p))
    return low


def _nucleus(logits: Tensor, top_p: float) -> Tensor:
    """Return the logit of the last token before which the more likely ones sum to less than ``top_p``.  # [N, 1]"""
    total = logits.logsumexp(1, keepdim=True)
    for width in (min(FIRST_SORTED, logits.shape[1]), logits.shape[1]):
        best = logits.topk(width).values
        probabilities = (best - total).exp().double()
        sums = probabilities.cumsum(1)
        if bool((sums[:, -1] >= top_p).all()):
            break
    inside = (sums - probabilities < top_p).sum(1, keepdim=True)
    return best.gather(1, inside - 1)
