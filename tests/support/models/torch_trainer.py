"""The waist's trainer in this process: a policy that learns here, asked by log-probs and slopes alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import torch
from torch import Tensor

from arena.lm.logprobs import ScoreOptions
from arena.lm.scoring import Pass, plan_passes
from games.common.errors import UsageError
from learners.update.policy import Policy
from learners.waist import AskedReply

_PLAIN = ScoreOptions(entropy_gradient=False)


class TorchTrainer:
    """A trainer (``learners.waist.Trainer``) over a policy; what it saves is below ``folder``."""

    def __init__(self, policy: Policy, folder: Path, max_tokens: int = 8192) -> None:
        self.policy, self._folder, self._max_tokens = policy, folder, max_tokens

    @torch.no_grad()
    def score(self, replies: Sequence[AskedReply]) -> list[Tensor]:
        """See ``Trainer``."""
        rows: dict[int, Tensor] = {}
        for one in self._passes(replies):
            logprobs = one.scores(self.policy.lm, _PLAIN).logprobs
            rows |= {item: row[: len(replies[item].reply)] for item, row in zip(one.items, logprobs, strict=True)}
        return [rows[item] for item in range(len(replies))]

    def accumulate(self, replies: Sequence[AskedReply], slopes: Sequence[Tensor]) -> None:
        """See ``Trainer``."""
        for one in self._passes(replies):
            logprobs = one.scores(self.policy.lm, _PLAIN).logprobs
            padded = torch.nn.utils.rnn.pad_sequence([slopes[item] for item in one.items], batch_first=True)
            (logprobs * padded.to(logprobs.device)).sum().backward()

    def step(self, learning_rate: float, max_norm: float) -> float:
        """See ``Trainer``."""
        norm = self.policy.clip_gradients(max_norm)
        if not math.isfinite(norm):
            self.policy.clear_gradients()
            raise UsageError(f"The gradient's norm is {norm}: the step was not taken. Lower optimizer.learning_rate.")
        self.policy.step(learning_rate)
        self.policy.clear_gradients()
        return norm

    def export(self) -> Mapping[str, Tensor]:
        """See ``Trainer``."""
        return {name: weight.detach().clone() for name, weight in self.policy.lm.parameters().items()}

    def save(self, name: str) -> str:
        """See ``Trainer``."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{name}.safetensors"
        self.policy.save(path)
        return str(path)

    def load(self, path: str) -> None:
        """See ``Trainer``."""
        self.policy.restore(Path(path))

    def keep_only(self, paths: Set[str]) -> None:
        """See ``Trainer``."""
        for path in self._folder.glob("*.safetensors"):
            if str(path) not in paths:
                path.unlink()

    def _passes(self, replies: Sequence[AskedReply]) -> Iterator[Pass]:
        prompts, texts = [asked.prompt for asked in replies], [asked.reply for asked in replies]
        yield from plan_passes(self.policy.lm, prompts, texts, self._max_tokens)
