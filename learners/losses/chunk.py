"""A chunk of the batch's rows as a term of the loss sees it, and the models' outputs for it.

Dimensions: rows R; elements W, a row's legal replies (``choice``) or its reply's tokens (``free``); tokens T, of which
a ``choice`` row has one; replies M of the whole chunk. Rows are padded with zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from arena.lm.chunks import Tokens
from arena.lm.language_model import LanguageModel
from arena.lm.scoring import Pass, plan_passes
from games.common.errors import UsageError
from learners.batching import ChoiceRow, FreeRow
from learners.losses.draws import DrawTensors
from learners.losses.frozen_results import FrozenResults
from learners.waist import Waist, WaistPass


class Models(NamedTuple):
    """The model in training, and the frozen ones that the objective compares it with."""

    lm: LanguageModel
    magnet: LanguageModel | None
    reference: LanguageModel | None
    results: FrozenResults | None = None  # of frozen models in earlier updates; None: each pass is run
    waist: Waist | None = None  # to the trainer that has the weights of ``lm``; None: they learn here

    def plan_free(
        self,
        prompts: Sequence[Tokens],
        replies: Sequence[Tokens],
        max_tokens: int,
        units: Sequence[Sequence[int]] | None = None,
    ) -> list[Pass]:
        """Return passes that score every free reply once, as ``plan_passes`` does; one if the trainer is elsewhere."""
        passes = plan_passes(self.lm, prompts, replies, max_tokens, units)
        return (
            passes if self.waist is None or not passes else [WaistPass(self.waist, self.lm, passes, prompts, replies)]
        )

    def refuse_choice(self, game: str) -> None:
        """Raise UsageError if a trainer elsewhere would have to sum over a game's legal replies."""
        if self.waist is not None:
            raise UsageError(
                f"{game} has replies by choice, whose loss sums over all legal replies, but a remote trainer returns "
                "only the log-probs of one reply's tokens. Set roles.reply = 'free', or trainer.kind = 'torch'."
            )


class PolicyOutput(NamedTuple):
    """A model's output for a chunk."""

    logprobs: Tensor  # of each legal reply, or of each sampled token  # [R, W]
    entropy: Tensor  # [R, T]


class Fixed(NamedTuple):
    """What the first pass over a batch fixes for its inner steps."""

    old: Tensor  # [R, W]
    magnet: Tensor | None  # [R, W]
    reference: Tensor | None  # [R, W]
    importance: Tensor | None  # [E]
    gains: Tensor  # weighted sums of positive advantages, with the importance weights  # [R, W]
    losses: Tensor  # weighted sums of negative advantages, with the importance weights  # [R, W]


class RowTensors(NamedTuple):
    """A chunk's rows as tensors."""

    draws: Tensor  # turns that drew each element; each of n tokens of a free reply counts 1 / n  # [R, W]
    visits: Tensor  # turns  # [R]
    weight: Tensor  # of each token, summed over turns  # [R]
    gains: Tensor  # weighted sums of positive advantages  # [R, W]
    losses: Tensor  # weighted sums of negative advantages  # [R, W]
    real: Tensor  # 1 at tokens, 0 at padding  # [R, T]
    by_draw: DrawTensors


class RowChunk(ABC):
    """One chunk of rows of one form."""

    free: bool  # whether they are free replies
    rows: Sequence[ChoiceRow | FreeRow]
    indices: Sequence[int]  # of the rows among the batch's rows of their form
    tensors: RowTensors

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of its tensors."""

    @abstractmethod
    def log_ratios(self) -> tuple[Tensor, Tensor]:
        """Return log pi - log reference of each reply [M], and KL(pi | reference) of each row's choice [R]."""

    @abstractmethod
    def divergence(self, logprobs: Tensor, other: Tensor, estimator: str) -> Tensor:
        """Return KL(pi | other).  # [R, W], [R, W] -> [R, T]"""

    @abstractmethod
    def by_reply(self, logprobs: Tensor) -> Tensor:
        """Return the log-probs of whole replies.  # [R, W] -> [M]"""

    @abstractmethod
    def reply_index(self, row: int, reply: int) -> int:
        """Return the index of a row's reply among the chunk's M."""
