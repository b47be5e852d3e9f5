"""Surrogates of advantages: ``reinforce``, ``ppo`` and ``gspo``, and what plugins build others with.

With A the advantage of a turn, rho = pi / pi_old at each token, and s = exp(mean over a reply's tokens of log rho):

    reinforce   -log pi A
    ppo         -min(rho A, clip(rho) A)    (Schulman et al. 2017), with an optional dual clip (Ye et al. 2020)
    gspo        -min(s A, clip(s) A)        (Zheng et al., arXiv 2507.18071); with ``sequence_mean`` the paper's loss

A ``choice`` reply is one choice of known probability, so there ``gspo`` and ``ppo`` are the same.
Each takes, for each legal reply or sampled token, the weighted sums of positive advantages (``gains``) and of negative
advantages (``losses``) that batching has merged. Log-probs are in nats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from games.common.section import NonNegative, Section
from learners.losses.term import ChunkTerm, LossContext, LossNeed, LossTerm, Term

if TYPE_CHECKING:
    from torch import Tensor

    from learners.losses.chunk import Fixed, PolicyOutput, RowChunk
    from learners.metric_sums import MetricSums

# log-probs, log-probs before the update, gains, losses, the entry's settings -> loss; tensors have one shape
Surrogated = Callable[["Tensor", "Tensor", "Tensor", "Tensor", Any], "Tensor"]


class Clips(Section):
    """How far the ratio of new to old probabilities counts: 1 - clip_low <= ratio <= 1 + clip_high."""

    clip_low: NonNegative = Field(0.2, description="ppo, gspo: lower clip of the ratio, 1 - clip_low")
    clip_high: NonNegative = Field(0.2, description="ppo, gspo: upper clip of the ratio, 1 + clip_high")
    dual_clip: float | None = Field(None, gt=1.0, description="ppo, gspo: bound c on the loss of negative advantages")


def reinforce(logprobs: Tensor, _old: Tensor, gains: Tensor, losses: Tensor, _settings: Clips) -> Tensor:
    """Return -log pi A."""
    return -logprobs * (gains + losses)


def ppo(logprobs: Tensor, old: Tensor, gains: Tensor, losses: Tensor, settings: Clips) -> Tensor:
    """Return -min(rho A, clip(rho) A), rho = pi / pi_old (Schulman et al. 2017).

    For A > 0 that is -A min(rho, 1 + clip_high), and for A < 0 it is -A max(rho, 1 - clip_low). The dual clip (Ye et
    al. 2020) bounds the ratio of A < 0 by c = ``dual_clip`` too.
    """
    ratio = (logprobs - old).exp()
    for_losses = ratio.clamp(min=1 - settings.clip_low)
    if settings.dual_clip is not None:
        for_losses = for_losses.clamp(max=settings.dual_clip)
    return -(gains * ratio.clamp(max=1 + settings.clip_high) + losses * for_losses)


def reply_means(logprobs: Tensor, real: Tensor) -> Tensor:
    """Return at each token the mean of its reply's log-probs; ``real`` is 1 at tokens, 0 at padding.  # [R, T]

    GSPO (Zheng et al., arXiv 2507.18071): exp of the difference of two of these is the sequence's ratio
    s = exp(mean_t log(pi / pi_old)), the same at all tokens. So each token carries its reply's loss, whose
    gradient is A s mean_t grad log pi; with ``sequence_mean`` the loss is the paper's.
    """
    means = (logprobs * real).sum(-1, keepdim=True) / real.sum(-1, keepdim=True)
    return means.expand_as(logprobs)


class PolicyGradient(Term):
    """A surrogate over the batch's rows, element by element; its ratio is a token's or, ``by_reply``, a reply's."""

    def __init__(self, context: LossContext, surrogate: Surrogated, by_reply: bool) -> None:
        super().__init__(context)
        self._surrogate, self._by_reply = surrogate, by_reply

    def on_chunk(self, chunk: RowChunk) -> ChunkTerm:
        """See ``Term``."""
        settings, tensors = self.context.settings, chunk.tensors
        by_reply = self._by_reply and chunk.free  # a choice's log-probs already belong to whole replies

        def loss(output: PolicyOutput, fixed: Fixed, sums: MetricSums) -> Tensor:
            logprobs, old = output.logprobs, fixed.old
            if by_reply:
                logprobs, old = reply_means(logprobs, tensors.real), reply_means(old, tensors.real)
            if isinstance(settings, Clips):
                sums.add("clipped", tensors.draws * _outside_clip(logprobs, old, settings))
            return self._surrogate(logprobs, old, fixed.gains, fixed.losses, settings).sum()

        return loss


def policy_gradient(surrogate: Surrogated, *, by_reply: bool = False) -> Callable[[LossContext], Term]:
    """Return the ``make`` of a loss that is a function of log-probs and advantages, element by element."""
    return lambda context: PolicyGradient(context, surrogate, by_reply)


def _outside_clip(logprobs: Tensor, old: Tensor, settings: Clips) -> Tensor:
    """Return 1 where the ratio is outside the clip range, else 0."""
    ratio = (logprobs.detach() - old).exp()
    return ((ratio < 1 - settings.clip_low) | (ratio > 1 + settings.clip_high)).float()


_ADVANTAGES = frozenset({LossNeed.ADVANTAGES})
REINFORCE = LossTerm(policy_gradient(reinforce), Clips, _ADVANTAGES, description="the plain policy gradient: -log pi A")
PPO = LossTerm(policy_gradient(ppo), Clips, _ADVANTAGES, description="the ratio of each token, clipped")
GSPO = LossTerm(
    policy_gradient(ppo, by_reply=True), Clips, _ADVANTAGES, description="ppo with the ratio of whole replies"
)
