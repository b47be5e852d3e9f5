"""A policy in training: its model, its optimiser, its magnet and reference, and all of it to and from disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from arena.lm import LanguageModel
from games.errors import UsageError

if TYPE_CHECKING:
    from learners.critic import Critic

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class Policy:
    """Trainable weights with AdamW state. ``updates`` counts finished updates.

    The weights are all of a model's, or those of an adapter on a base that others share. ``entropy_means``
    are the running means that ``epo`` compares with.
    """

    def __init__(
        self,
        name: str,
        lm: LanguageModel,
        *,
        weight_decay: float,
        magnet: bool,
        reference: bool = False,
        critic: Critic | None = None,
    ) -> None:
        self.name = name
        self.lm = lm
        self.updates = 0
        self.entropy_means: dict[str, float] = {}
        self.critic = critic
        self.magnet: LanguageModel | None = lm.frozen_copy() if magnet else None
        self.reference: LanguageModel | None = lm.untrained() if reference else None
        self.parameters = lm.parameters()
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
            with torch.no_grad():
                for kept, current in zip(self.magnet.parameters().values(), self.parameters.values(), strict=True):
                    kept.copy_(current)

    def begin_anew(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from other weights, by parameter name, with an optimiser that remembers nothing."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(weights[name])
        self.optimizer.state.clear()
        self.entropy_means.clear()
        self.refresh_magnet()

    def adopt(self, other: Policy) -> None:
        """Take over all that a policy on the same weights remembers, as far as this one has a place for it."""
        theirs = other._parts()
        with torch.no_grad():
            for part, parameters in self._parts().items():
                for name, parameter in parameters.items() if part in theirs else ():
                    parameter.copy_(theirs[part][name])
        self.updates, self.entropy_means = other.updates, other.entropy_means
        self.optimizer.state.update(other.optimizer.state)
        if self.critic is not None and other.critic is not None:
            self.critic.restore(other.critic.tensors())

    def save(self, path: Path) -> None:
        """Write what is this policy's own to one safetensors file: a base that it shares is not in it."""
        tensors: dict[str, Tensor] = {"updates": torch.tensor(self.updates)}
        for part, parameters in self._parts().items():
            tensors |= {f"{part}/{name}": parameter.detach() for name, parameter in parameters.items()}
        for name, parameter in self.parameters.items():
            for moment, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{moment}/{name}"] = value
        for key, mean in self.entropy_means.items():
            tensors[f"entropy_mean/{key}"] = torch.tensor(mean, dtype=torch.float64)
        if self.critic is not None:
            tensors |= {f"critic/{name}": tensor for name, tensor in self.critic.tensors().items()}
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)

    def restore(self, path: Path) -> None:
        """Read what ``save`` wrote. Raises UsageError if it cannot be read, or does not fit this model."""
        tensors = _read(path)
        for part, parameters in self._parts().items():
            _copy_into(parameters, tensors, part, path)
        self.optimizer.state.clear()
        for name, parameter in self.parameters.items():
            moments = {m: tensors[f"{m}/{name}"] for m in _MOMENTS if f"{m}/{name}" in tensors}
            if moments:  # AdamW keeps its step count on the CPU
                self.optimizer.state[parameter] = {
                    m: value if m == "step" else value.to(parameter.device) for m, value in moments.items()
                }
        self.entropy_means = {key: float(mean) for key, mean in _below(tensors, "entropy_mean").items()}
        if self.critic is not None:
            self.critic.restore(_below(tensors, "critic"))
        self.updates = int(tensors["updates"])

    def _parts(self) -> dict[str, Mapping[str, Tensor]]:
        """Return the weights that are this policy's own, by what they are for and by name."""
        parts: dict[str, Mapping[str, Tensor]] = {"weights": self.parameters}
        if self.magnet is not None:
            parts["magnet"] = self.magnet.parameters()
        if self.reference is not None and self.reference.adapters is None:  # an adapter's is the base, which is kept
            parts["reference"] = self.reference.parameters()
        return parts


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise UsageError(
            f"{path} cannot be read as safetensors: {error}. It was cut off or changed after it was saved. Put a whole "
            "copy of it there, or begin the run anew in another folder."
        ) from error


def _below(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``part/``, by the rest of their names."""
    return {name.removeprefix(f"{part}/"): t for name, t in tensors.items() if name.startswith(f"{part}/")}


def _copy_into(parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor], part: str, path: Path) -> None:
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
