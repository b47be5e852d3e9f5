"""The turn-level critic of ``gae_turn``: V(o_k), what a role still earns from a turn on (ArCHer, arXiv 2402.19446).

One small head a role reads the policy's last hidden state at the prompt's last token. The state is taken
as given (detached): learning values moves neither the policy nor another role's adapter, so a head can
tell apart just what the policy's own weights tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from arena.chunks import Tokens
from arena.lm import LanguageModel
from arena.records import Turn
from games.errors import UsageError
from learners.trajectories import Trajectory

BUDGET = 8192  # padded tokens in one forward pass
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class CriticSettings(Protocol):
    """How heads are built and trained."""

    @property
    def hidden_size(self) -> int:
        """Return the width of a head's hidden layer."""

    @property
    def learning_rate(self) -> float:
        """Return AdamW's rate."""

    @property
    def steps(self) -> int:
        """Return the optimiser steps on one batch."""


class _Asked(NamedTuple):
    """What a value belongs to: equal turns have one value."""

    role: str  # "game/role"
    prompt: Tokens


class _Merged(NamedTuple):
    """The targets of equal turns: their mean, how many turns there are, and the sum of squares around the mean."""

    mean: float
    turns: int
    within: float


class Critic:
    """Value heads for roles, written "game/role", with an optimiser of their own."""

    def __init__(self, width: int, roles: Sequence[str], settings: CriticSettings, seed: int) -> None:
        """Build a head for each role on states of ``width``; ``seed`` fixes the weights they begin with."""
        generator = torch.Generator().manual_seed(seed % 2**63)
        self._heads = {role: _Head(width, settings.hidden_size, generator) for role in dict.fromkeys(roles)}
        self._steps = settings.steps
        self._optimizer = torch.optim.AdamW(self._parameters().values(), lr=settings.learning_rate, weight_decay=0.0)

    def values(self, lm: LanguageModel, trajectories: Sequence[Trajectory]) -> list[tuple[float, ...]]:
        """Return the value of each turn, in the rewards' units."""
        asked = dict.fromkeys(_asked(one, turn) for one in trajectories for turn in one.turns)
        with torch.no_grad():
            known = dict(zip(asked, self._values(list(asked), self._states(lm, list(asked))).tolist(), strict=True))
        return [tuple([known[_asked(one, turn)] for turn in one.turns]) for one in trajectories]

    def fit(
        self, lm: LanguageModel, trajectories: Sequence[Trajectory], targets: Sequence[Sequence[float]]
    ) -> dict[str, float]:
        """Move the values towards ``targets``, one a turn; return the metrics of the batch.

        ``loss`` is the mean squared error over turns before the last step; ``explained`` the share of
        the targets' variance that the values then explained (1: all; 0: no better than their mean).
        """
        merged = _merge(trajectories, targets)
        if not merged:
            return {}
        asked, states = list(merged), self._states(lm, list(merged))
        means = torch.tensor([one.mean for one in merged.values()], device=states.device)
        counts = torch.tensor([float(one.turns) for one in merged.values()], device=states.device)
        error = torch.zeros(())
        for _ in range(self._steps):
            self._optimizer.zero_grad(set_to_none=True)
            error = (counts * (self._values(asked, states) - means).square()).sum() / counts.sum()
            error.backward()
            self._optimizer.step()
        return _fit_metrics(float(error.detach()), list(merged.values()))

    def tensors(self) -> dict[str, Tensor]:
        """Return weights and optimiser state by name."""
        tensors = {f"weights/{name}": parameter.detach() for name, parameter in self._parameters().items()}
        for name, parameter in self._parameters().items():
            for moment, value in self._optimizer.state.get(parameter, {}).items():
                tensors[f"{moment}/{name}"] = value
        return tensors

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take what ``tensors`` returned. Raises UsageError if it is of other heads."""
        self._optimizer.state.clear()
        for name, parameter in self._parameters().items():
            saved = tensors.get(f"weights/{name}")
            if saved is None or saved.shape != parameter.shape:
                found = "missing" if saved is None else "of another shape"
                raise UsageError(
                    f"The saved critic does not fit: its {name} is {found}. "
                    "The run was started with other roles or another [critic]; resume it with its own config.toml."
                )
            with torch.no_grad():
                parameter.copy_(saved)
            moments = {m: tensors[f"{m}/{name}"].clone() for m in _MOMENTS if f"{m}/{name}" in tensors}
            if moments:
                self._optimizer.state[parameter] = moments

    def _parameters(self) -> dict[str, nn.Parameter]:
        return {f"{role}/{n}": p for role, head in self._heads.items() for n, p in head.named_parameters()}

    def _states(self, lm: LanguageModel, asked: Sequence[_Asked]) -> Tensor:
        """Return the policy's hidden states, detached.  # [N, H]"""
        if not asked:
            return torch.zeros(0, 0)
        prompts = list(dict.fromkeys(one.prompt for one in asked))
        with torch.no_grad():
            states = lm.prompt_states(prompts, BUDGET).float().cpu()  # heads are small: they stay on the CPU
        places = {prompt: place for place, prompt in enumerate(prompts)}
        return states[[places[one.prompt] for one in asked]]

    def _values(self, asked: Sequence[_Asked], states: Tensor) -> Tensor:
        """Return the values that the heads give.  # [N]"""
        places: dict[str, list[int]] = {}
        for place, one in enumerate(asked):
            places.setdefault(one.role, []).append(place)
        values = torch.zeros(len(asked))
        for role, own in places.items():
            values = values.index_copy(0, torch.tensor(own), self._heads[role](states[own]))
        return values


class _Head(nn.Module):
    """A role's head; it says 0 at first."""

    def __init__(self, width: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, hidden)
        self.value = nn.Linear(hidden, 1)
        nn.init.normal_(self.hidden.weight, 0.0, width**-0.5, generator=generator)
        for zero in (self.hidden.bias, self.value.weight, self.value.bias):
            nn.init.zeros_(zero)

    def forward(self, states: Tensor) -> Tensor:
        """Return values.  # [N, H] -> [N]"""
        value: Tensor = self.value(nn.functional.gelu(self.hidden(self.norm(states))))[:, 0]
        return value


def _asked(trajectory: Trajectory, turn: Turn) -> _Asked:
    if turn.trace is None:
        raise ValueError(f"match {trajectory.match}: a turn of {turn.player!r} kept no tokens, so it has no value")
    return _Asked(f"{trajectory.game}/{trajectory.role}", turn.trace.prompt_ids)


def _merge(trajectories: Sequence[Trajectory], targets: Sequence[Sequence[float]]) -> dict[_Asked, _Merged]:
    """Return the targets of equal turns together: the squared error to them has the same gradient as one by one."""
    found: dict[_Asked, list[float]] = {}
    for one, targets_K in zip(trajectories, targets, strict=True):
        for turn, target in zip(one.turns, targets_K, strict=True):
            found.setdefault(_asked(one, turn), []).append(target)
    merged = {}
    for asked, values in found.items():
        mean = fsum(values) / len(values)
        merged[asked] = _Merged(mean, len(values), fsum((value - mean) ** 2 for value in values))
    return merged


def _fit_metrics(error: float, merged: Sequence[_Merged]) -> dict[str, float]:
    """Return the mean squared error over turns and the explained share of the targets' variance."""
    turns = sum(one.turns for one in merged)
    mean = fsum(one.mean * one.turns for one in merged) / turns
    within = fsum(one.within for one in merged) / turns
    total = within + fsum(one.turns * (one.mean - mean) ** 2 for one in merged) / turns
    metrics = {"loss": error + within}
    return metrics | ({"explained": 1.0 - metrics["loss"] / total} if total > 0.0 else {})
