"""The turn-level critic: V(o_k), the expected return of a role from turn k on (ArCHer, arXiv 2402.19446).

It reads a turn's prompt or, with privileged information in training, another prompt that also has what other seats are
shown (a centralised critic, like MAPPO's, arXiv 2103.01955). Each role has a small head on the policy's last
hidden state at the last token. The hidden state is detached: training the critic changes neither the policy nor another
role's adapter, so a head can distinguish only prompts that the policy's weights distinguish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from arena.lm.chunks import Tokens
from arena.lm.language_model import LanguageModel
from games.common.errors import UsageError
from learners.trajectories import Evidence, Trajectory

MAX_TOKENS = 8192  # padded tokens in one forward pass
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

    @property
    def value_clip(self) -> float | None:
        """Return how far from its value before the fit a value's error is judged; None: anywhere."""


class _StateKey(NamedTuple):
    """The input of the critic: turns with equal keys have one value."""

    role: str  # "game/role"
    prompt: Tokens


class _MergedTargets(NamedTuple):
    """The targets of equal turns: their mean, how many turns there are, and the sum of squares around the mean."""

    mean: float
    turns: int
    within: float


class Critic:
    """Value heads for roles, written "game/role", with a separate optimiser."""

    def __init__(self, width: int, roles: Sequence[str], settings: CriticSettings, seed: int) -> None:
        """Build a head for each role on hidden states of size ``width``; ``seed`` fixes the initial weights."""
        generator = torch.Generator().manual_seed(seed % 2**63)
        self._heads = {role: _Head(width, settings.hidden_size, generator) for role in dict.fromkeys(roles)}
        self._steps, self._value_clip = settings.steps, settings.value_clip
        self._optimizer = torch.optim.AdamW(self._parameters().values(), lr=settings.learning_rate, weight_decay=0.0)
        self._initial = {name: parameter.detach().clone() for name, parameter in self._parameters().items()}

    def values(
        self, lm: LanguageModel, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence] = ()
    ) -> list[tuple[float, ...]]:
        """Return the value of each turn, in the rewards' units; ``evidence`` may have prompts for the critic only."""
        keys_NK = _state_keys(trajectories, evidence)
        keys = dict.fromkeys(key for keys_K in keys_NK for key in keys_K)
        with torch.no_grad():
            value_of = dict(zip(keys, self._values(list(keys), self._states(lm, list(keys))).tolist(), strict=True))
        return [tuple([value_of[key] for key in keys_K]) for keys_K in keys_NK]

    def fit(
        self,
        lm: LanguageModel,
        trajectories: Sequence[Trajectory],
        targets: Sequence[Sequence[float]],
        evidence: Sequence[Evidence] = (),
    ) -> dict[str, float]:
        """Move the values towards ``targets``, one a turn; return the metrics of the batch.

        ``loss`` is the mean squared error over turns before the last step; ``explained`` the share of
        the targets' variance that the values then explained (1: all; 0: no better than their mean).
        """
        merged = _merge(_state_keys(trajectories, evidence), targets)
        if not merged:
            return {}
        keys, states = list(merged), self._states(lm, list(merged))
        means = torch.tensor([m.mean for m in merged.values()], device=states.device)
        counts = torch.tensor([float(m.turns) for m in merged.values()], device=states.device)
        error, before = torch.zeros(()), None
        for _ in range(self._steps):
            self._optimizer.zero_grad(set_to_none=True)
            values = self._values(keys, states)
            before = values.detach() if before is None else before
            error = (counts * squared_errors(values, before, means, self._value_clip)).sum() / counts.sum()
            error.backward()
            self._optimizer.step()
        return _fit_metrics(float(error.detach()), list(merged.values()))

    def reset(self) -> None:
        """Return to the initial weights, whose values are 0, and clear the optimiser's state."""
        self.load_tensors({f"weights/{name}": weight for name, weight in self._initial.items()})

    def tensors(self) -> dict[str, Tensor]:
        """Return weights and optimiser state by name."""
        tensors = {f"weights/{name}": parameter.detach() for name, parameter in self._parameters().items()}
        for name, parameter in self._parameters().items():
            for moment, value in self._optimizer.state.get(parameter, {}).items():
                tensors[f"{moment}/{name}"] = value
        return tensors

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what ``tensors`` returned. Raises UsageError if the heads differ."""
        self._optimizer.state.clear()
        for name, parameter in self._parameters().items():
            saved = tensors.get(f"weights/{name}")
            if saved is None or saved.shape != parameter.shape:
                problem = "missing" if saved is None else "of another shape"
                raise UsageError(
                    f"The saved critic does not fit: its {name} is {problem}. "
                    "The run was started with other roles or another [critic]; resume it with its own config.toml."
                )
            with torch.no_grad():
                parameter.copy_(saved)
            moments = {m: tensors[f"{m}/{name}"].clone() for m in _MOMENTS if f"{m}/{name}" in tensors}
            if moments:
                self._optimizer.state[parameter] = moments

    def _parameters(self) -> dict[str, nn.Parameter]:
        return {f"{role}/{n}": p for role, head in self._heads.items() for n, p in head.named_parameters()}

    def _states(self, lm: LanguageModel, keys: Sequence[_StateKey]) -> Tensor:
        """Return the policy's hidden states, detached.  # [N, H]"""
        if not keys:
            return torch.zeros(0, 0)
        prompts = list(dict.fromkeys(key.prompt for key in keys))
        with torch.no_grad():
            states = lm.prompt_states(prompts, MAX_TOKENS).float().cpu()  # heads are small: they stay on the CPU
        index_of = {prompt: index for index, prompt in enumerate(prompts)}
        return states[[index_of[key.prompt] for key in keys]]

    def _values(self, keys: Sequence[_StateKey], states: Tensor) -> Tensor:
        """Return the values of the heads.  # [N]"""
        by_role: dict[str, list[int]] = {}
        for index, key in enumerate(keys):
            by_role.setdefault(key.role, []).append(index)
        values = torch.zeros(len(keys))
        for role, indices in by_role.items():
            values = values.index_copy(0, torch.tensor(indices), self._heads[role](states[indices]))
        return values


def critic_targets(values: Sequence[Sequence[float]], advantages: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the target of each turn's value, A_k + V(o_k)."""
    return [
        [a + v for a, v in zip(advantages_K, values_K, strict=True)]
        for advantages_K, values_K in zip(advantages, values, strict=True)
    ]


def squared_errors(values: Tensor, before: Tensor, targets: Tensor, clip: float | None) -> Tensor:
    """Return (V - target)², or with a clip the greater of it and that of V within ``clip`` of the value before.  # [N]

    The clipped value loss of PPO, as in PPO-max (arXiv 2307.04964): no gradient takes a value further than the clip.
    """
    errors = (values - targets).square()
    if clip is None:
        return errors
    near = before + (values - before).clamp(-clip, clip)
    return torch.maximum(errors, (near - targets).square())


class _Head(nn.Module):
    """A role's head; its initial value is 0."""

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


def _state_keys(trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]) -> list[list[_StateKey]]:
    """Return the key of each turn of each trajectory."""
    evidence_N = evidence or [Evidence()] * len(trajectories)
    return [
        [
            _StateKey(f"{trajectory.game}/{trajectory.role}", prompt)
            for prompt in _prompts(trajectory, trajectory_evidence)
        ]
        for trajectory, trajectory_evidence in zip(trajectories, evidence_N, strict=True)
    ]


def _prompts(trajectory: Trajectory, evidence: Evidence) -> list[Tokens]:
    """Return what the critic reads of each turn."""
    if evidence.critic_prompts is not None:
        return list(evidence.critic_prompts)
    prompts = []
    for turn in trajectory.turns:
        if turn.trace is None:
            raise ValueError(f"match {trajectory.match}: a turn of {turn.player!r} has no tokens, so it has no value")
        prompts.append(turn.trace.prompt_ids)
    return prompts


def _merge(keys: Sequence[Sequence[_StateKey]], targets: Sequence[Sequence[float]]) -> dict[_StateKey, _MergedTargets]:
    """Merge the targets of equal turns: the squared error to their mean has the gradient of the unmerged turns."""
    targets_of: dict[_StateKey, list[float]] = {}
    for keys_K, targets_K in zip(keys, targets, strict=True):
        for key, target in zip(keys_K, targets_K, strict=True):
            targets_of.setdefault(key, []).append(target)
    merged = {}
    for key, values in targets_of.items():
        mean = fsum(values) / len(values)
        merged[key] = _MergedTargets(mean, len(values), fsum((value - mean) ** 2 for value in values))
    return merged


def _fit_metrics(error: float, merged: Sequence[_MergedTargets]) -> dict[str, float]:
    """Return the mean squared error over turns and the explained share of the targets' variance."""
    turns = sum(m.turns for m in merged)
    mean = fsum(m.mean * m.turns for m in merged) / turns
    within = fsum(m.within for m in merged) / turns
    total = within + fsum(m.turns * (m.mean - mean) ** 2 for m in merged) / turns
    metrics = {"loss": error + within}
    return metrics | ({"explained": 1.0 - metrics["loss"] / total} if total > 0.0 else {})
