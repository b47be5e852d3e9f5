"""What a model says of given replies, pass by pass, with gradients or without.

Models whose attention is known to be plain read replies packed (``arena.packing``) and never hold all logits
(``arena.logprobs``). Others read them padded, with the logits of a whole pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from arena.checkpointing import checkpointed
from arena.chunks import Chunk, Tokens
from arena.lm import LanguageModel
from arena.logprobs import Asked, Scores, token_scores
from arena.packing import Layout, Pack, lay_out, plan_packs


class Pass(Protocol):
    """Some of the planned replies, read together."""

    @property
    def items(self) -> tuple[int, ...]:
        """Which ones."""

    def scores(self, lm: LanguageModel, asked: Asked) -> Scores:
        """Return what a model says of each reply's tokens, 0 behind its last.  # [R, T] each"""


def plan_passes(
    lm: LanguageModel,
    prompts: Sequence[Tokens],
    replies: Sequence[Tokens],
    budget: int,
    units: Sequence[Sequence[int]] | None = None,
) -> list[Pass]:
    """Return passes of at most ``budget`` tokens, padding counted, that score every reply once.

    ``units`` are the rows to score, those together that must be in one pass; they have one prompt. None: all,
    each by itself.
    """
    units = [(row,) for row in range(len(prompts))] if units is None else units
    if lm.shares_prefix:
        return [PackedPass(pack, replies) for pack in plan_packs(prompts, replies, budget, units)]
    own = [[replies[row] for row in unit] for unit in units]
    chunks = lm.plan([prompts[unit[0]] for unit in units], own, budget)
    return [
        PaddedPass(chunk._replace(items=tuple(row for item in chunk.items for row in units[item])), replies)
        for chunk in chunks
    ]


class PackedPass:
    """Replies one behind another in a single sequence."""

    def __init__(self, pack: Pack, replies: Sequence[Tokens]) -> None:
        self._pack, self._replies = pack, replies

    @property
    def items(self) -> tuple[int, ...]:
        """See ``Pass``."""
        return self._pack.items

    def scores(self, lm: LanguageModel, asked: Asked) -> Scores:
        """See ``Pass``."""
        layout = lay_out(self._pack, self._replies, lm.device)
        with last_states(lm.model) as states, checkpointed(lm.model):
            lm.forward(**packed_inputs(layout))
        head, width = lm.model.get_output_embeddings(), lm.model.config.vocab_size
        flat = token_scores(head, states[0][0, layout.scored], layout.targets, asked, width)
        return Scores(*(part.new_zeros(layout.real.shape).masked_scatter(layout.real, part) for part in flat))


class PaddedPass:
    """Replies side by side."""

    def __init__(self, chunk: Chunk, replies: Sequence[Tokens]) -> None:
        self._chunk, self._replies = chunk, replies

    @property
    def items(self) -> tuple[int, ...]:
        """See ``Pass``."""
        return self._chunk.items

    def scores(self, lm: LanguageModel, asked: Asked) -> Scores:
        """See ``Pass``."""
        with checkpointed(lm.model):
            logits = lm.reply_logits(self._chunk, self._replies)
        own = [self._replies[i] for i in self.items]
        width = logits.shape[1]
        tokens = torch.tensor([[*reply, *[-1] * (width - len(reply))] for reply in own], device=logits.device)
        real = tokens >= 0
        flat = token_scores(_given, logits[real], tokens[real], asked, logits.shape[2])
        return Scores(*(part.new_zeros(real.shape).masked_scatter(real, part) for part in flat))


def packed_inputs(layout: Layout) -> dict[str, Any]:
    """Return a model's arguments for a packed pass that computes no logits."""
    return {
        "input_ids": layout.ids,
        "position_ids": layout.positions,
        "attention_mask": layout.ids.new_empty(1, 1, 1, 1),  # one that is given is not built: [tokens, tokens]
        "packed": layout.attention,
        "use_cache": False,
        "logits_to_keep": layout.scored[:0],
    }


def _given(logits: Tensor) -> Tensor:
    """Be the head of states that are logits already."""
    return logits


@contextmanager
def last_states(model: Any) -> Iterator[list[Tensor]]:
    """Keep the last hidden states [N, S, H] of the passes made meanwhile."""
    states: list[Tensor] = []
    hook = model.base_model.register_forward_hook(lambda *call: states.append(call[2].last_hidden_state))
    try:
        yield states
    finally:
        hook.remove()
