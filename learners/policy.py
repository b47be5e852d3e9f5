"""A policy in training: its model, its optimiser, its magnet, and all of it to and from disk."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from arena.lm import LanguageModel
from games.errors import UsageError

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class Policy:
    """Trainable weights with AdamW state. ``updates`` counts finished updates."""

    def __init__(self, name: str, lm: LanguageModel, *, weight_decay: float, magnet: bool) -> None:
        self.name = name
        self.lm = lm
        self.updates = 0
        self.magnet: LanguageModel | None = _frozen_copy(lm) if magnet else None
        self.parameters = dict(lm.model.named_parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=0.0, betas=(0.9, 0.99), weight_decay=weight_decay
        )

    @property
    def live_id(self) -> str:
        """The id under which this policy's current weights play."""
        return self.name

    def refresh_magnet(self) -> None:
        """Move the magnet to the current weights."""
        if self.magnet is not None:
            self.magnet.model.load_state_dict(self.lm.model.state_dict())

    def save(self, path: Path) -> None:
        """Write weights, optimiser state and magnet to one safetensors file."""
        tensors = {f"weights/{name}": parameter.detach() for name, parameter in self.parameters.items()}
        for name, parameter in self.parameters.items():
            for moment, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{moment}/{name}"] = value
        if self.magnet is not None:
            tensors |= {f"magnet/{name}": p.detach() for name, p in self.magnet.model.named_parameters()}
        tensors["updates"] = torch.tensor(self.updates)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)

    def restore(self, path: Path) -> None:
        """Read what ``save`` wrote. Raises UsageError if it does not fit this model."""
        tensors = load_file(path)
        _copy_into(self.parameters, tensors, "weights", path)
        if self.magnet is not None:
            _copy_into(dict(self.magnet.model.named_parameters()), tensors, "magnet", path)
        self.optimizer.state.clear()
        for name, parameter in self.parameters.items():
            moments = {m: tensors[f"{m}/{name}"] for m in _MOMENTS if f"{m}/{name}" in tensors}
            if moments:  # AdamW keeps its step count on the CPU
                self.optimizer.state[parameter] = {
                    m: value if m == "step" else value.to(parameter.device) for m, value in moments.items()
                }
        self.updates = int(tensors["updates"])


def _frozen_copy(lm: LanguageModel) -> LanguageModel:
    model = copy.deepcopy(lm.model)
    model.requires_grad_(False)
    return LanguageModel(model, lm.tokenizer)


def _copy_into(parameters: dict[str, Tensor], tensors: dict[str, Tensor], part: str, path: Path) -> None:
    with torch.no_grad():
        for name, parameter in parameters.items():
            saved = tensors.get(f"{part}/{name}")
            if saved is None or saved.shape != parameter.shape:
                found = "nothing" if saved is None else f"shape {tuple(saved.shape)}"
                raise UsageError(
                    f"{path} holds {found} for {part}/{name}, but the model needs shape {tuple(parameter.shape)}. "
                    "The run was started with another model; resume it with its own config.toml."
                )
            parameter.copy_(saved)
