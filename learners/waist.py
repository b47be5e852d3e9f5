"""The narrow waist between a loss and a trainer that has the weights: log-probs one way, their slopes the other.

A loss of free replies is a function of the log-probs of their tokens. So a trainer elsewhere has to do two things for
it: say the log-probs, and add the gradient of sum(slope * log-prob), where the slopes are the loss's derivatives at
those log-probs. By the chain rule that is the gradient of the loss, whatever the loss is. What reads more of a model
than these log-probs cannot go through, and is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from math import inf, nan
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from arena.lm.chunks import Tokens
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import ScoreOptions, Scores
from arena.lm.scoring import Pass
from games.common.errors import UsageError
from roles.truncation import NO_TRUNCATION


class AskedReply(NamedTuple):
    """A prompt and a reply to it, whose tokens are scored at temperature 1."""

    prompt: Tokens
    reply: Tokens  # [T]


class Trainer(Protocol):
    """Trainable weights, here or elsewhere. Raises UsageError, in a sentence, if it cannot do what it is asked."""

    def score(self, replies: Sequence[AskedReply]) -> list[Tensor]:
        """Return the log-probs of each reply's tokens under the present weights (nats).  # [T] each"""

    def accumulate(self, replies: Sequence[AskedReply], slopes: Sequence[Tensor]) -> None:
        """Add the gradient of sum(slope * log-prob) over all tokens to the gradient of the next step.  # [T] each"""

    def step(self, learning_rate: float, max_norm: float) -> float | None:
        """Clip the gradient, take an optimiser step and forget it; return its norm before, None where it is unknown."""

    def export(self) -> Mapping[str, Tensor]:
        """Return the weights, by the names that they have in PEFT's files, without its prefix."""

    def save(self, name: str) -> str:
        """Keep the weights and the optimiser's state under a name; return where ``load`` finds them."""

    def load(self, path: str) -> None:
        """Continue with the weights and the optimiser's state that ``save`` kept."""

    def keep_only(self, paths: Set[str]) -> None:
        """Forget what ``save`` has kept for this run, except for these; what cannot be forgotten is no error."""


class Waist:
    """A policy's trainer, and the slopes that it gets with the next step.

    They are sent with the step: what a step is not taken for leaves nothing behind at the trainer.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self._replies: list[AskedReply] = []
        self._slopes: list[Tensor] = []
        self._max_norm = inf

    def logprobs(self, replies: Sequence[AskedReply], device: torch.device) -> Tensor:
        """Return the log-probs of the replies' tokens, 0 behind a reply's last.  # [R, T]

        A backward pass keeps their slopes for the next step.
        """
        anchor = torch.zeros((), requires_grad=True)
        logprobs: Tensor = _Through.apply(anchor, self, replies, device)  # type: ignore[no-untyped-call]
        return logprobs

    def keep(self, replies: Sequence[AskedReply], slopes: Tensor) -> None:
        """Keep slopes [R, T] for the next step."""
        self._replies += replies
        self._slopes += [row[: len(asked.reply)].cpu() for asked, row in zip(replies, slopes, strict=True)]

    def clear(self) -> None:
        """Forget the slopes."""
        self._replies, self._slopes = [], []

    def clip(self, max_norm: float) -> float:
        """Let the next step clip to a norm; return a finite number where the slopes are finite."""
        self._max_norm = max_norm
        return 0.0 if all(bool(slopes.isfinite().all()) for slopes in self._slopes) else nan

    def step(self, learning_rate: float) -> float | None:
        """Send the slopes, and let the trainer take a step; return the gradient's norm, None where it is unknown."""
        if self._replies:
            self.trainer.accumulate(self._replies, self._slopes)
        self.clear()
        return self.trainer.step(learning_rate, self._max_norm)


class _Through(torch.autograd.Function):
    """The log-probs of a trainer, as a function of an anchor that lets a backward pass reach it."""

    @staticmethod
    def forward(ctx: Any, _anchor: Tensor, waist: Waist, replies: Sequence[AskedReply], device: torch.device) -> Tensor:
        ctx.waist, ctx.replies = waist, replies
        rows = waist.trainer.score(replies)
        return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True).to(device)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        ctx.waist.keep(ctx.replies, slopes[0])
        return torch.zeros(()), None, None, None


class WaistPass:
    """Replies that a trainer elsewhere scores, all at once; a frozen model scores them here, pass by pass."""

    def __init__(
        self,
        waist: Waist,
        trained: LanguageModel,
        passes: Sequence[Pass],
        prompts: Sequence[Tokens],
        replies: Sequence[Tokens],
    ) -> None:
        self._waist, self._trained, self._passes = waist, trained, passes
        self._asked = [AskedReply(prompts[i], replies[i]) for i in self.items]

    @property
    def items(self) -> tuple[int, ...]:
        """See ``Pass``."""
        return tuple(item for one in self._passes for item in one.items)

    def scores(self, lm: LanguageModel, options: ScoreOptions) -> Scores:
        """See ``Pass``. A trainer elsewhere says no entropy: in its place stands -log-prob, which estimates it."""
        if lm is not self._trained:
            parts = [one.scores(lm, options) for one in self._passes]
            return Scores(*(_stacked(part) for part in zip(*parts, strict=True)))
        _refuse_sampling(options)
        logprobs = self._waist.logprobs(self._asked, lm.device)
        return Scores(logprobs, -logprobs.detach())


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Return passes' scores one below another.  # [R, T] each"""
    width = max(part.shape[1] for part in parts)
    return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in parts])


def _refuse_sampling(options: ScoreOptions) -> None:
    """Refuse log-probs that a trainer elsewhere does not have."""
    if options.temperature != 1.0:
        raise UsageError(
            f"A reply was sampled at temperature {options.temperature:g}, but a remote trainer returns log-probs at "
            "temperature 1. Set roles.temperature = 1.0, or trainer.kind = 'torch'."
        )
    if options.truncation != NO_TRUNCATION:
        raise UsageError(
            "A reply was sampled with top_k, top_p or min_p, but a remote trainer returns log-probs over the whole "
            "vocabulary. Leave them out of [roles], or set trainer.kind = 'torch'."
        )
