"""The loss of a batch turn by turn in numpy, as the papers write it: nothing merged, padded, packed or split.

Log-probs come from one forward pass of ``transformers`` for each reply. For terms of several policies: ``lm`` is in
training, ``old`` what it was when the batch was started.
"""

from typing import Any, NamedTuple

import numpy as np
import torch

from support.models.pocket import allowed_tokens


class Policies(NamedTuple):
    """The policies that a loss compares; each is the scores of a turn, as ``scores`` returns them."""

    lm: Any
    old: Any
    magnet: Any
    reference: Any


class Scores(NamedTuple):
    """What a policy says of a turn: of each legal reply of a choice [A], or of each token of a free reply [T]."""

    logprobs: np.ndarray  # [A] or [T]
    entropy: np.ndarray  # [1] or [T]


@torch.no_grad()
def _logits(lm, prompt, reply):
    """Return the logits from which each token of a reply was drawn.  # [T, V]"""
    ids = torch.tensor([[*prompt, *reply]])
    return lm.model(input_ids=ids).logits[0, len(prompt) - 1 : -1].double().numpy()


def _log_softmax(row):
    row = row - row.max()
    return row - np.log(np.exp(row).sum())


def scores(lm, turn):
    """Return a policy's scores of a turn's reply."""
    trace = turn.trace
    if trace.mask is None:
        rows = [_log_softmax(row / trace.temperature) for row in _logits(lm, trace.prompt_ids, trace.reply_ids)]
        logprobs = np.array([row[token] for row, token in zip(rows, trace.reply_ids, strict=True)])
        return Scores(logprobs, np.array([-(np.exp(row) * row).sum() for row in rows]))
    replies, totals = [lm.encode_reply(text) for text in trace.mask], []
    for which, reply in enumerate(replies):
        total, options = 0.0, allowed_tokens(replies, which)
        for row, token, allowed in zip(_logits(lm, trace.prompt_ids, reply), reply, options, strict=True):
            total += _log_softmax(row[allowed] / trace.temperature)[allowed.index(token)]
        totals.append(total)
    logprobs = np.array(totals)
    return Scores(logprobs, np.array([-(np.exp(logprobs) * logprobs).sum()]))


def surrogate(log_ratio, logprobs, advantage, settings):
    """Return -min(rho A, clip(rho) A), elementwise, or -log pi A; for A < 0 the dual clip bounds the loss at -c A."""
    if settings.name == "reinforce":
        return -logprobs * advantage
    if settings.name == "gspo":
        log_ratio = np.full_like(log_ratio, log_ratio.mean())
    settings, ratio = settings.table, np.exp(log_ratio)
    clipped = np.clip(ratio, 1 - settings.clip_low, 1 + settings.clip_high)
    worth = np.minimum(ratio * advantage, clipped * advantage)
    if settings.dual_clip is not None:
        worth = np.where(advantage < 0, np.maximum(worth, settings.dual_clip * advantage), worth)
    return -worth


def estimate(name, logprobs, other):
    """Return Schulman's estimates of KL(pi | other) from samples of pi, elementwise."""
    log_ratio = other - logprobs
    return {"k1": -log_ratio, "k2": log_ratio**2 / 2, "k3": np.exp(log_ratio) - 1 - log_ratio}[name]


def divergences(trace, policies, objective):
    """Return a turn's KL to the policy before the update, to the magnet and to the reference: estimates or exact."""
    lm, old, magnet, reference = policies
    if trace.mask is None:
        kl_old, kl_magnet = (estimate("k2", lm.logprobs, other.logprobs) for other in (old, magnet))
        return kl_old, kl_magnet, estimate(objective.kl_estimator, lm.logprobs, reference.logprobs)
    share = objective.magnet_uniform
    mixed = np.log((1 - share) * np.exp(magnet.logprobs) + share / len(trace.mask))
    return [
        np.array([(np.exp(lm.logprobs) * (lm.logprobs - other)).sum()])
        for other in (old.logprobs, mixed, reference.logprobs)
    ]


def turn_terms(turn, policies, advantage, objective, entropy_mean):
    """Return a turn's loss, its sum over tokens, and what is reported of it."""
    trace, free = turn.trace, turn.trace.mask is None
    lm, old, _, _ = policies
    drawn = slice(None) if free else [trace.mask.index(turn.reply)]
    sampled = np.array(trace.logprobs if free else [sum(trace.logprobs)])
    log_ratio = (lm.logprobs - old.logprobs)[drawn]
    importance = np.minimum(np.exp(old.logprobs[drawn] - sampled), objective.truncate or np.inf)
    weighed = advantage * (importance if objective.truncate else 1.0)
    credited = surrogate(log_ratio, lm.logprobs[drawn], weighed, objective.surrogate)
    kl_old, kl_magnet, kl_reference = divergences(trace, policies, objective)
    low, high = objective.band.low * entropy_mean, objective.band.high * entropy_mean
    outside = np.maximum(low - lm.entropy, 0) + np.maximum(lm.entropy - high, 0)
    loss = (
        credited.sum()
        + objective.kl_old * kl_old.sum()
        + objective.magnet * kl_magnet.sum()
        + objective.kl_reference * kl_reference.sum()
        + objective.band.weight * outside.sum()
        - objective.entropy.get("kuhn_poker", 0.0) * lm.entropy.sum()
    )
    ratio = np.exp(np.full_like(log_ratio, log_ratio.mean()) if objective.surrogate.name == "gspo" else log_ratio)
    clips = objective.surrogate.table
    beyond = (ratio < 1 - clips.clip_low) | (ratio > 1 + clips.clip_high)
    return {
        "loss": loss,
        "kl_old": kl_old.sum(),
        "magnet_kl": kl_magnet.sum(),
        "reference_kl": kl_reference.sum(),
        "outside_band": outside.sum(),
        "entropy": lm.entropy.sum(),
        "gap": abs((old.logprobs[drawn] - sampled).sum()),
        "importance": importance.mean(),
        "truncated": (importance == objective.truncate).mean(),
        "clipped": beyond.mean(),
    }
