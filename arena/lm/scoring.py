"""A model's scores of given replies, pass by pass, with gradients or without.

Models with plain attention read replies packed (``arena.lm.packing``) and never hold all logits
(``arena.lm.logprobs``). Other models read them padded, with the logits of a whole pass.

Gradient checkpointing (Chen et al., arXiv 1604.06174): a layer keeps its input and is recomputed backward.

This is ``transformers``' own implementation, which is active only while layers are in training mode and the model
caches nothing. Models here stay in evaluation mode, so that sampler and learner do not differ by dropout; only the
layers are put into training mode, for the learner's passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from arena.lm.chunks import Chunk, Tokens, tokens_of
from arena.lm.fused_scores import fits, fused_token_scores
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import ScoreOptions, Scores, token_scores
from arena.lm.packing import Pack, lay_out, packed_inputs, plan_packs
from games.common.errors import UsageError


class Pass(Protocol):
    """Some of the planned replies, scored in one forward pass."""

    @property
    def items(self) -> tuple[int, ...]:
        """The indices of the replies."""

    def scores(self, lm: LanguageModel, options: ScoreOptions) -> Scores:
        """Return the scores of each reply's tokens, 0 behind its last token.  # [R, T] each"""


def plan_passes(
    lm: LanguageModel,
    prompts: Sequence[Tokens],
    replies: Sequence[Tokens],
    max_tokens: int,
    units: Sequence[Sequence[int]] | None = None,
) -> list[Pass]:
    """Return passes of at most ``max_tokens`` tokens, padding counted, that score every reply once.

    A unit is the indices of replies that must be in one pass; they have one prompt. None: each reply is a unit.
    """
    units = [(row,) for row in range(len(prompts))] if units is None else units
    if lm.shares_prefix:
        return [PackedPass(pack, replies) for pack in plan_packs(prompts, replies, max_tokens, units)]
    unit_replies = [[replies[row] for row in unit] for unit in units]
    chunks = lm.plan([prompts[unit[0]] for unit in units], unit_replies, max_tokens)
    return [
        PaddedPass(chunk._replace(items=tuple(row for item in chunk.items for row in units[item])), replies)
        for chunk in chunks
    ]


def reply_logprobs(
    lm: LanguageModel,
    prompts: Sequence[Tokens],
    replies: Sequence[Tokens],
    max_tokens: int,
    temperature: float = 1.0,
    units: Sequence[Sequence[int]] | None = None,
) -> list[float]:
    """Return the log-probability of each whole reply in nats, without gradients, in the passes of ``plan_passes``."""
    logprobs = [0.0] * len(replies)
    with torch.inference_mode():
        for scored in plan_passes(lm, prompts, replies, max_tokens, units):
            sums = scored.scores(lm, ScoreOptions(temperature)).logprobs.double().sum(-1).tolist()
            for row, value in zip(scored.items, sums, strict=True):
                logprobs[row] = value
    return logprobs


class PackedPass:
    """A pass over replies one behind another in a single sequence."""

    def __init__(self, pack: Pack, replies: Sequence[Tokens]) -> None:
        self._pack, self._replies = pack, replies

    @property
    def items(self) -> tuple[int, ...]:
        """See ``Pass``."""
        return self._pack.items

    def scores(self, lm: LanguageModel, options: ScoreOptions) -> Scores:
        """See ``Pass``."""
        layout = lay_out(self._pack, self._replies, lm.device, by_spans=lm.packs_by_spans)
        with last_states(lm.model) as states, checkpointed(lm.model):
            lm.forward(**packed_inputs(layout, layout.scored[:0]))
        lm.cost.add(*tokens_of(self._pack.chunks), len(layout.targets))
        head, vocabulary = lm.model.get_output_embeddings(), lm.model.config.vocab_size
        read = states[0][0, layout.scored]
        if lm.fuses_scores and fits(head):
            flat = fused_token_scores(head, read, layout.targets, options)
        else:
            flat = token_scores(head, read, layout.targets, options, vocabulary)
        return Scores(*(part.new_zeros(layout.real.shape).masked_scatter(layout.real, part) for part in flat))


class PaddedPass:
    """A pass over a padded batch of replies."""

    def __init__(self, chunk: Chunk, replies: Sequence[Tokens]) -> None:
        self._chunk, self._replies = chunk, replies

    @property
    def items(self) -> tuple[int, ...]:
        """See ``Pass``."""
        return self._chunk.items

    def scores(self, lm: LanguageModel, options: ScoreOptions) -> Scores:
        """See ``Pass``."""
        with checkpointed(lm.model):
            logits = lm.reply_logits(self._chunk, self._replies)
        replies = [self._replies[i] for i in self.items]
        length, vocabulary = logits.shape[1:]
        tokens = torch.tensor([[*reply, *[-1] * (length - len(reply))] for reply in replies], device=logits.device)
        real = tokens >= 0
        flat = token_scores(_identity, logits[real], tokens[real], options, vocabulary)
        return Scores(*(part.new_zeros(real.shape).masked_scatter(real, part) for part in flat))


def _identity(logits: Tensor) -> Tensor:
    """Return the logits: the head for states that are logits already."""
    return logits


@contextmanager
def last_states(model: Any) -> Iterator[list[Tensor]]:
    """Collect the last hidden states [N, S, H] of the passes within."""
    states: list[Tensor] = []
    hook = model.base_model.register_forward_hook(lambda *call: states.append(call[2].last_hidden_state))
    try:
        yield states
    finally:
        hook.remove()


def enable_checkpointing(model: Any) -> None:
    """Let passes within ``checkpointed`` keep only each layer's input.

    Raises UsageError for a model that does not support it.
    """
    if not model.supports_gradient_checkpointing:
        raise UsageError(
            f"{type(model).__name__} does not support gradient checkpointing. Set optimizer.checkpointing = false."
        )
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)  # its older name
    enable({"use_reentrant": False, "preserve_rng_state": False})


@contextmanager
def checkpointed(model: Any) -> Iterator[None]:
    """Checkpoint the passes within, if gradients are enabled and ``enable_checkpointing`` was called."""
    layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    for layer in layers:
        layer.training = torch.is_grad_enabled() and layer.gradient_checkpointing
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
