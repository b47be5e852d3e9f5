"""Truncated sampling of free replies: unlikely tokens are cut off, and the others' probabilities sum to 1 again.

Sampler and learner compute log-probs of the same truncated distribution, so each role says how it is truncated.
"""

from __future__ import annotations

from typing import NamedTuple


class Truncation(NamedTuple):
    """Which tokens may be sampled, in the order of vLLM: after temperature, by ``min_p``, ``top_k``, then ``top_p``."""

    top_k: int = 0  # the k most likely tokens; 0: all
    top_p: float = 1.0  # the fewest most likely tokens whose probabilities sum to p or more (arXiv 1904.09751)
    min_p: float = 0.0  # tokens at least min_p times as likely as the most likely one (arXiv 2407.01082)


NO_TRUNCATION = Truncation()
