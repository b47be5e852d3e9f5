"""Objectives as pure functions of log-probs. All log-probs and divergences are in nats.

The policy-gradient part takes, for each reply or token, the weighted sums of positive advantages (``gains``) and of
negative advantages (``losses``) that batching has merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


class Surrogate(NamedTuple):
    """Which surrogate, and its clips: 1 - clip_low <= ratio <= 1 + clip_high, ratio <= dual_clip.

    ``dpo``, ``dmpo`` and ``kto`` have beta, ``dmpo`` gamma, ``kto`` the weights of what is desirable and what is not.
    """

    name: str = "ppo"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    beta: float = 0.1
    gamma: float = 1.0
    desirable: float = 1.0
    undesirable: float = 1.0

    @property
    def judges_trajectories(self) -> bool:
        """Whether all that a seat said in a match is judged at once."""
        return self.name in ("kto", "dmpo")


def surrogate_loss(logprobs: Tensor, old: Tensor, gains: Tensor, losses: Tensor, surrogate: Surrogate) -> Tensor:
    """Return the policy-gradient loss, element by element; tensors have one shape.

    reinforce: -log pi A.   ppo (Schulman et al. 2017): -min(rho A, clip(rho) A), rho = pi / pi_old,
    which for A > 0 is -A min(rho, 1 + clip_high) and for A < 0 is -A max(rho, 1 - clip_low). The
    dual clip (Ye et al. 2020) bounds the ratio of A < 0 by c = ``dual_clip`` too.
    gspo: as ppo, of the log-probs that ``reply_means`` returns.
    """
    if surrogate.name == "reinforce":
        return -logprobs * (gains + losses)
    ratio = (logprobs - old).exp()
    for_losses = ratio.clamp(min=1 - surrogate.clip_low)
    if surrogate.dual_clip is not None:
        for_losses = for_losses.clamp(max=surrogate.dual_clip)
    return -(gains * ratio.clamp(max=1 + surrogate.clip_high) + losses * for_losses)


def dpo_loss(chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
    """Return -log sigmoid(beta (chosen - rejected)), pair by pair; tensors have one shape.

    Direct preference optimisation (Rafailov et al., arXiv 2305.18290). ``chosen`` and ``rejected`` are
    log pi(y) - log reference(y) of whole replies to one prompt, so log 2 a pair where the two policies are equal.
    """
    return -logsigmoid(beta * (chosen - rejected))


def kto_loss(scores: Tensor, reference_point: Tensor, desirable: Tensor, surrogate: Surrogate) -> Tensor:
    """Return lambda (1 - sigmoid(+-beta (S - z0))), one by one; tensors have one shape.

    Kahneman-Tversky optimisation (Ethayarajh et al., arXiv 2402.01306): + and lambda_D where ``desirable`` is True, -
    and lambda_U else. ``scores`` S are log pi - log reference of all of a trajectory's replies, and
    ``reference_point`` z0 is an estimate of KL(pi | reference), at least 0, through which no gradient goes.
    """
    gain = torch.where(desirable, scores - reference_point, reference_point - scores)
    weight = torch.where(desirable, surrogate.desirable, surrogate.undesirable)
    return weight * torch.sigmoid(-surrogate.beta * gain)


def turn_discounts(turns: int, gamma: float) -> list[float]:
    """Return gamma^t (1 - gamma^(T - t)) / (1 - gamma^T) for the turns t = 0, 1, ... T - 1 of a trajectory.

    What direct multi-turn preference optimisation (Shi et al., arXiv 2406.14868) weighs a turn's log-ratio by: that of
    the discounted occupancies of all positions from it on, divided by the sum of the discounts, so that longer
    trajectories do not count for more. For gamma = 1 it is (T - t) / T; for gamma near 0 the first turn alone counts.
    """
    tails = [sum(gamma**later for later in range(t, turns)) for t in range(turns)]
    return [tail / tails[0] for tail in tails]


def entropy(logprobs: Tensor) -> Tensor:
    """Return the exact entropy of each distribution.  # [..., A] -> [...]"""
    return -(logprobs.exp() * logprobs).sum(-1)


def kl(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the exact KL(pi | reference) of each distribution.  # [..., A] -> [...]"""
    return (logprobs.exp() * (logprobs - reference)).sum(-1)


def reply_means(logprobs: Tensor, real: Tensor) -> Tensor:
    """Return at each token the mean of its reply's log-probs; ``real`` is 1 at tokens, 0 at padding.  # [R, T]

    GSPO (Zheng et al., arXiv 2507.18071): exp of the difference of two of these is the sequence's ratio
    s = exp(mean_t log(pi / pi_old)), the same at all tokens. So each token carries its reply's loss, whose
    gradient is A s mean_t grad log pi; with ``sequence_mean`` the loss is the paper's.
    """
    means = (logprobs * real).sum(-1, keepdim=True) / real.sum(-1, keepdim=True)
    return means.expand_as(logprobs)


def truncated_importance(old: Tensor, sampled: Tensor, bound: float) -> Tensor:
    """Return min(pi_old / pi_sampler, bound), element by element, without gradient.

    Truncated importance sampling (Ionides 2008): the learner's policy at the start of the batch over the
    engine's policy, which differ where the engine's arithmetic is not the learner's.
    """
    return (old - sampled).detach().exp().clamp(max=bound)


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the estimate log pi - log reference of KL(pi | reference), from samples of pi.

    Unbiased as an estimate, but useless as a loss: its mean gradient is E[grad log pi] = 0.
    """
    return logprobs - reference


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the estimate (log pi - log reference)^2 / 2 of KL(pi | reference), from samples of pi.

    Biased as an estimate, but for samples of pi its mean gradient is that of KL(pi | reference).
    """
    return 0.5 * (logprobs - reference).square()


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return the estimate r - 1 - log r, r = reference / pi, of KL(pi | reference), from samples of pi.

    Unbiased and never negative as an estimate (GRPO's choice), but for samples of pi its mean gradient is
    that of KL(reference | pi).
    """
    log_ratio = reference - logprobs
    return log_ratio.exp() - 1 - log_ratio


ESTIMATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}  # Schulman 2020


def outside_band(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return how far each value lies outside its band: max(low - x, 0) + max(x - high, 0)."""
    return (low - values).clamp(min=0.0) + (values - high).clamp(min=0.0)


def mix_uniform(logprobs: Tensor, padding: Tensor, share: float) -> Tensor:
    """Return log((1 - share) pi + share / A) over each row's A replies; ``padding`` is True behind a row's replies."""
    if share == 0.0:
        return logprobs
    replies = (~padding).sum(-1, keepdim=True)
    mixed = (1 - share) * logprobs.exp() + share / replies
    return torch.where(padding, logprobs, mixed.clamp(min=1e-30).log())
