"""A policy in training: its model, its optimiser, its magnet and reference, and all of it to and from disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import Parameter

from arena.lm import LanguageModel
from games.errors import UsageError
from learners.master_weights import MasterWeights
from learners.optimizers import STATE, OptimizerName, make_optimizer
from learners.sharding import is_sharded, like, shard, whole

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from learners.critic import Critic


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
        optimizer: OptimizerName = "adamw",
    ) -> None:
        self.name = name
        self.lm = lm
        self.updates = 0
        self.begun = 0  # how often its weights were set from outside
        self.entropy_means: dict[str, float] = {}
        self.critic = critic
        self.magnet: LanguageModel | None = lm.frozen_copy() if magnet else None
        self.reference: LanguageModel | None = lm.untrained() if reference else None
        self._weight_decay, self._optimizer_name = weight_decay, optimizer
        self._take_hold()

    def _take_hold(self) -> None:
        """Let an optimiser that remembers nothing move the model's weights."""
        self._masters = MasterWeights(self.lm.parameters())
        self.parameters = self._masters.parameters
        self.optimizer = make_optimizer(self._optimizer_name, self.parameters.values(), self._weight_decay)

    def shard(self, mesh: DeviceMesh) -> None:
        """Cut the weights of all its models up over processes. For a policy that has not been trained yet."""
        held = [self.lm, *(lm for lm in (self.magnet, self.reference) if lm is not None)]
        for model in {id(lm.model): lm.model for lm in held}.values():  # adapters have one base
            shard(model, mesh)
        self._take_hold()

    @property
    def sharded(self) -> bool:
        """Whether the weights are cut up: then all processes must run as many passes, at the same time."""
        return is_sharded(self.lm.model)

    def step(self, learning_rate: float) -> None:
        """Take the optimiser's step with the gradients that there are."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self._masters.publish()

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
        self._masters.publish()
        self.optimizer.state.clear()
        self.entropy_means.clear()
        self.begun += 1
        self.refresh_magnet()

    def adopt(self, other: Policy) -> None:
        """Take over all that a policy on the same weights remembers, as far as this one has a place for it."""
        theirs = other._parts()
        with torch.no_grad():
            for part, parameters in self._parts().items():
                for name, parameter in parameters.items() if part in theirs else ():
                    parameter.copy_(theirs[part][name])
        self._masters.publish()
        other._masters.let_go()
        self.updates, self.entropy_means = other.updates, other.entropy_means
        for name, parameter in self.parameters.items() if self._optimizer_name == other._optimizer_name else ():
            if kept := other.optimizer.state.get(other.parameters[name]):
                self.optimizer.state[parameter] = kept
        if self.critic is not None and other.critic is not None:
            self.critic.restore(other.critic.tensors())

    def save(self, path: Path) -> None:
        """Write what is this policy's own to one safetensors file: a base that it shares is not in it."""
        tensors = self.tensors()
        if self.critic is not None:
            tensors |= {f"critic/{name}": tensor for name, tensor in self.critic.tensors().items()}
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)

    def restore(self, path: Path) -> None:
        """Read what ``save`` wrote. Raises UsageError if it cannot be read, or does not fit this model."""
        tensors = _read(path)
        self.take(tensors, str(path))
        if self.critic is not None:
            self.critic.restore(_below(tensors, "critic"))

    def tensors(self) -> dict[str, Tensor]:
        """Return all that learning must not lose, but the critic, by name; shards are put together."""
        tensors: dict[str, Tensor] = {"updates": torch.tensor(self.updates)}
        for part, parameters in self._parts().items():
            tensors |= {f"{part}/{name}": whole(parameter.detach()) for name, parameter in parameters.items()}
        for name, parameter in self.parameters.items():
            for moment, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{moment}/{name}"] = whole(torch.as_tensor(value))
        for key, mean in self.entropy_means.items():
            tensors[f"entropy_mean/{key}"] = torch.tensor(mean, dtype=torch.float64)
        return tensors

    def take(self, tensors: Mapping[str, Tensor], origin: str) -> None:
        """Go on from what ``tensors`` returned. Raises UsageError, naming ``origin``, if it does not fit this model."""
        for part, parameters in self._parts().items():
            _copy_into(parameters, tensors, part, origin)
        self._masters.publish()
        self.optimizer.state.clear()
        for name, parameter in self.parameters.items():
            first, *_ = names = STATE[self._optimizer_name]
            if f"{first}/{name}" in tensors:  # what another optimiser remembered is of no use
                self.optimizer.state[parameter] = {
                    m: _moment(m, tensors[f"{m}/{name}"], parameter) for m in names if f"{m}/{name}" in tensors
                }
        self.entropy_means = {key: float(mean) for key, mean in _below(tensors, "entropy_mean").items()}
        self.updates = int(tensors["updates"])
        self.begun += 1

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


def _moment(name: str, saved: Tensor, parameter: Parameter) -> Tensor | int:
    """Return what an optimiser keeps of a parameter: moments where it is, the step count on the CPU or as a number."""
    if name == "step":
        return saved.clone() if saved.is_floating_point() else int(saved)
    return like(saved, parameter).clone()


def _below(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``part/``, by the rest of their names."""
    return {name.removeprefix(f"{part}/"): t for name, t in tensors.items() if name.startswith(f"{part}/")}


def _copy_into(parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor], part: str, origin: str) -> None:
    with torch.no_grad():
        for name, parameter in parameters.items():
            saved = tensors.get(f"{part}/{name}")
            if saved is None or saved.shape != parameter.shape:
                found = "nothing" if saved is None else f"shape {tuple(saved.shape)}"
                raise UsageError(
                    f"{origin} holds {found} for {part}/{name}, but the model needs shape {tuple(parameter.shape)}. "
                    "The run was started with another model; resume it with its own config.toml."
                )
            parameter.copy_(like(saved, parameter))
