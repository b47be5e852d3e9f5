"""Estimates of KL(pi | reference) from samples of pi (Schulman 2020), token by token, in nats.

``objective.kl_estimator`` chooses one. Each is ``estimate(logprobs, reference)``: both are log-probs of the sampled
tokens, and the tensors have one shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from games.common.registry import Entry, Registry

if TYPE_CHECKING:
    from torch import Tensor


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the estimate log pi - log reference of KL(pi | reference), from samples of pi.

    Unbiased as an estimate, but useless as a loss: its mean gradient is E[grad log pi] = 0.
    """
    return logprobs - reference


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the estimate (log pi - log reference)^2 / 2 of KL(pi | reference), from samples of pi.

    Biased as an estimate, but for samples of pi its mean gradient is the gradient of KL(pi | reference).
    """
    return 0.5 * (logprobs - reference).square()


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the estimate r - 1 - log r, r = reference / pi, of KL(pi | reference), from samples of pi.

    Unbiased and never negative as an estimate (GRPO's choice), but for samples of pi its mean gradient is
    the gradient of KL(reference | pi).
    """
    log_ratio = reference - logprobs
    return log_ratio.exp() - 1 - log_ratio


ESTIMATORS = Registry(
    "kl_estimators",
    "KL estimator",
    Entry,
    "objective.kl_estimator",
    {"k1": Entry(k1), "k2": Entry(k2), "k3": Entry(k3)},
)
