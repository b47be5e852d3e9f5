"""A policy in training: its model, optimiser, magnet and reference, and saving and loading them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import Parameter

from arena.lm.language_model import LanguageModel
from games.common.errors import UsageError
from learners.losses.frozen_results import FrozenResults
from learners.parallel.fsdp import full_tensor, is_sharded, reshard, shard, shard_like
from learners.parallel.saved_shards import layouts_of, read_parts
from learners.parallel.streamed_file import TensorLayout, write_streamed
from learners.update.average import WeightAverage
from learners.update.master_weights import MasterWeights
from learners.update.moments import AwayMoments
from learners.update.optimizers import STATE, OptimizerName, make_optimizer
from learners.waist import Trainer, Waist

if TYPE_CHECKING:
    from concurrent.futures import Future

    from torch.distributed.device_mesh import DeviceMesh

    from learners.update.critic import Critic


PLAYED = ("weights", "average")  # parts that play, or are handed over
_MOMENTS = tuple(f"{moment}/" for moments in STATE.values() for moment in moments)
_LARGE_PARTS = ("weights", "magnet", "average", "reference")


class Shards(Protocol):
    """The shards of a policy, in this process and others."""

    def save(self, path: Path) -> Future[None]:
        """Begin to write their state to a folder, a part a process; the result is there when all is written."""


class Policy:
    """Trainable weights with AdamW state.

    The weights are all of a model's weights, or an adapter on a shared base. ``entropy_means`` are the
    running means that define ``epo``'s entropy band.
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
        offload: Path | None = None,
        average: float | None = None,
        trainer: Trainer | None = None,
    ) -> None:
        self.name = name
        self.lm = lm
        self.updates = 0
        self.pass_tokens = 0  # that fit into the GPU's memory in one pass; 0: not measured
        self.resets = 0  # how often the weights were replaced by anything but an update
        self.entropy_means: dict[str, float] = {}
        self.critic = critic
        self.magnet: LanguageModel | None = lm.frozen_copy() if magnet else None
        self.reference: LanguageModel | None = lm.untrained() if reference else None
        self.frozen_results = FrozenResults()
        self.waist = None if trainer is None else Waist(trainer)  # to where its weights learn, if that is not here
        self._saved_elsewhere: tuple[tuple[int, int], str] | None = None  # ``updates`` and ``resets``, and where
        self.plays = False  # and learns elsewhere, in shards: it is restored without an optimiser's state
        self.shards: Shards | None = None  # which hold what it has learned
        self.restored: tuple[Path, int] | None = None  # from where, and ``resets`` then
        self._weight_decay, self._optimizer_name = weight_decay, optimizer
        self._offload = offload  # where moments wait between steps that are in a file; None: they stay in memory
        self._reset_optimizer()
        if trainer is not None:  # what learns here by mistake is noticed
            for parameter in self.parameters.values():
                parameter.requires_grad_(False)
        self.average = None if average is None else WeightAverage(self.parameters, average)

    @property
    def updates(self) -> int:
        """The number of finished updates: the version of the weights, which every reply of the model carries."""
        return self._updates

    @updates.setter
    def updates(self, updates: int) -> None:
        self._updates = self.lm.version = updates

    def _reset_optimizer(self) -> None:
        """Create a new optimiser, without state, for the model's weights."""
        self._masters = MasterWeights(self.lm.parameters())
        self.parameters = self._masters.parameters
        self.optimizer = make_optimizer(self._optimizer_name, self.parameters.values(), self._weight_decay)
        self._away: AwayMoments | None = None
        if self._offload is not None:
            self._away = AwayMoments(self.optimizer, self.parameters.values(), self._offload)

    def shard(self, mesh: DeviceMesh) -> None:
        """Shard the weights of all its models over processes. For a policy that has not been trained yet."""
        models = [self.lm, *(lm for lm in (self.magnet, self.reference) if lm is not None)]
        for lm in models:
            lm.decodes_on_device = lm.fuses_scores = False  # both read weights that are not gathered then
            lm.plain = None  # as it does
        for model in {id(lm.model): lm.model for lm in models}.values():  # adapters have one base
            shard(model, mesh)
        self._reset_optimizer()
        if self.average is not None:
            self.average = WeightAverage(self.parameters, self.average.decay)

    @property
    def sharded(self) -> bool:
        """Whether the weights are sharded: then all processes must run the same number of passes, at the same time."""
        return is_sharded(self.lm.model)

    def begin(self) -> None:
        """Take the weights with which a trainer elsewhere begins; without one, do nothing."""
        if self.waist is not None:
            self._take_weights()
            self.resets += 1
            self.refresh_magnet()
            if self.average is not None:
                self.average.reset(self.parameters)

    def _take_weights(self) -> None:
        """Copy the trainer's weights to the model that plays. Raises UsageError if they do not fit it."""
        assert self.waist is not None
        exported = self.waist.trainer.export()
        strange = sorted(exported.keys() - self.parameters.keys())
        if strange:
            raise UsageError(
                f"The trainer of policy {self.name!r} has {len(strange)} weights that the run's model lacks, such as "
                f"{strange[0]}. It trains another base, or other layers of it."
            )
        for name, parameter in self.parameters.items():
            if name not in exported or exported[name].shape != parameter.shape:
                has = f"shape {tuple(exported[name].shape)}" if name in exported else "nothing"
                raise UsageError(
                    f"The trainer of policy {self.name!r} has {has} for {name}, where the run's model has shape "
                    f"{tuple(parameter.shape)}. It trains another base, or an adapter of another rank or other layers."
                )
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(exported[name])
        self._masters.copy_to_model()

    def clear_gradients(self) -> None:
        """Forget the gradients of a step that is not taken, or was."""
        self.optimizer.zero_grad(set_to_none=True)
        if self.waist is not None:
            self.waist.clear()

    def check_reached(self, loss: Tensor) -> None:
        """Raise UsageError for a loss that a trainer elsewhere cannot learn from, as its log-probs are not its own."""
        if self.waist is not None and not loss.requires_grad:
            raise UsageError(
                f"A term of the loss of policy {self.name!r} does not read the log-probs of free replies, and its "
                "remote trainer learns from nothing else. Leave the term out, or set trainer.kind = "
                "'torch'."
            )

    def clip_gradients(self, max_norm: float) -> float:
        """Clip the gradient to a norm; return the norm before, of a trainer elsewhere only whether it can be finite."""
        if self.waist is not None:
            return self.waist.clip(max_norm)
        return float(full_tensor(torch.nn.utils.clip_grad_norm_(self.parameters.values(), max_norm)))

    def step(self, learning_rate: float) -> float | None:
        """Take an optimiser step with the current gradients; return their norm as a trainer elsewhere says it."""
        if self.waist is not None:
            return self.waist.step(learning_rate)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        if self._away is None:
            self.optimizer.step()
        else:
            self._away.step()
        self._masters.copy_to_model()
        return None

    def finish_update(self) -> None:
        """Count an update, and fold the weights into their running mean where there is one."""
        if self.waist is not None:
            self._take_weights()
        self.updates += 1
        if self.average is not None:
            self.average.fold(self.parameters)

    def save_model(self, folder: Path) -> None:
        """Save the model to hand over: the weights' running mean where there is one, else the weights themselves."""
        model = self.lm if self.average is None else self.average.model(self.lm)
        model.save(folder)
        if model is not self.lm:
            model.release()

    @property
    def live_id(self) -> str:
        """The player id of this policy's current weights."""
        return self.name

    def refresh_magnet(self) -> None:
        """Copy the current weights to the magnet."""
        self.frozen_results.clear()
        if self.magnet is not None:
            reshard(self.magnet.model)
            with torch.no_grad():
                for saved, current in zip(self.magnet.parameters().values(), self.parameters.values(), strict=True):
                    saved.copy_(current)

    def reset(self, weights: Mapping[str, Tensor]) -> None:
        """Replace the weights, by parameter name, and forget what was learned with the old ones.

        That is the optimiser's state, the critic and the running means of entropy.
        """
        self._refuse_elsewhere("takes weights other than those it learned")
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(weights[name])
        self._masters.copy_to_model()
        self.optimizer.state.clear()
        self.entropy_means.clear()
        if self.critic is not None:
            self.critic.reset()
        if self.average is not None:
            self.average.reset(self.parameters)
        self.resets += 1
        self.refresh_magnet()

    def copy_from(self, source: Policy) -> None:
        """Copy the weights and state of a policy on the same model, except for parts that this policy lacks."""
        self._refuse_elsewhere("takes the weights of another policy")
        sources = source._parts()
        self.frozen_results.clear()
        with torch.no_grad():
            for part, parameters in self._parts().items():
                for name, parameter in parameters.items() if part in sources else ():
                    parameter.copy_(sources[part][name])
        self._masters.copy_to_model()
        source._masters.remove_hooks()
        self.updates, self.entropy_means = source.updates, source.entropy_means
        if self.average is not None and source.average is not None:
            self.average.updates = source.average.updates
        for name, parameter in self.parameters.items() if self._optimizer_name == source._optimizer_name else ():
            if moments := source.optimizer.state.get(source.parameters[name]):
                self.optimizer.state[parameter] = moments
        if self.critic is not None and source.critic is not None:
            self.critic.load_tensors(source.critic.tensors())

    def save(self, path: Path) -> Future[None] | None:
        """Write the policy to one safetensors file, without a shared base; its own shards are gathered one by one.

        Of shards elsewhere each writes its part to a folder of that name, which is whole when the result is there.
        """
        if self.shards is not None:
            return self.shards.save(path)
        critic = self.critic.tensors() if self.critic is not None else {}
        its_own = {f"critic/{name}": tensor for name, tensor in critic.items()}
        if self.sharded:
            layouts = {name: TensorLayout.of(tensor) for name, tensor in (self.held() | its_own).items()}
            write_streamed(path, layouts, chain(self.streamed(), its_own.items()))
            return None
        save_file({name: tensor.contiguous() for name, tensor in (self.tensors() | its_own).items()}, path)
        return None

    def restore(self, path: Path) -> None:
        """Load what ``save`` wrote. Raises UsageError if it cannot be read, or does not fit this model.

        Of a folder of parts, shards read their own: all processes that hold them must call this at the same time.
        """
        if path.is_dir():
            self._restore_parts(path)
        else:
            with _opened(path) as file:
                names = [n for n in file.keys() if not self.plays or not n.startswith(_MOMENTS)]  # noqa: SIM118
                self.load_stream(((name, file.get_tensor(name)) for name in names), str(path))
                if self.critic is not None:
                    critic = {name: file.get_tensor(name) for name in names if name.startswith("critic/")}
                    self.critic.load_tensors(_below(critic, "critic"))
        self.restored = path, self.resets

    def _restore_parts(self, folder: Path) -> None:
        """Load the state whose parts are in a folder, tensor by tensor into its place."""
        present = {f"{part}/{name}": own for part, owned in self._parts().items() for name, own in owned.items()}
        targets: dict[str, Tensor] = {}
        for key, layout in layouts_of(folder).items():
            kind, _, name = key.partition("/")
            if key in present:
                targets[key] = present[key].detach()
                if tuple(targets[key].shape) != layout.shape:
                    _copy_into(targets[key], torch.empty(layout.shape, device="meta"), key, str(folder))
            elif kind in (moment for moments in STATE.values() for moment in moments):
                if self.plays or kind not in STATE[self._optimizer_name] or name not in self.parameters:
                    continue
                like = self.parameters[name].detach()
                same = tuple(like.shape) == layout.shape
                targets[key] = torch.empty_like(like) if same else torch.empty(layout.shape, dtype=layout.dtype)
            elif kind not in _LARGE_PARTS:
                targets[key] = torch.empty(layout.shape, dtype=layout.dtype)
        read_parts(folder, targets, together=self.sharded)
        critic = {key: targets.pop(key) for key in sorted(targets) if key.startswith("critic/")}
        self.load_stream(((key, targets.pop(key)) for key in sorted(targets)), str(folder))
        if self.critic is not None:
            self.critic.load_tensors(_below(critic, "critic"))

    def unchanged_file(self) -> Path | None:
        """Return the file that the policy was restored from, if it has not changed since."""
        path, resets = self.restored or (None, -1)
        return path if resets == self.resets else None

    def saved_state(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the full state without the critic's: of a policy that only plays, its file's if that is one file."""
        path = self.unchanged_file() if self.plays else None
        if path is None or path.is_dir():
            yield from self.streamed()
            return
        with _opened(path) as file:
            for name in file.keys():  # noqa: SIM118
                if not name.startswith("critic/"):
                    yield name, file.get_tensor(name)

    def tensors(self) -> dict[str, Tensor]:
        """Return the full state except the critic's, by name; shards are gathered."""
        return dict(self.streamed())

    def streamed(self, parts: Sequence[str] = ()) -> Iterator[tuple[str, Tensor]]:
        """Yield the state of some parts (none: all, with what an optimiser keeps) but the critic's, one at a time.

        Shards are gathered; all processes that hold them must take all of it at the same time.
        """
        for name, tensor in self.held(parts).items():
            yield name, full_tensor(tensor)

    def held(self, parts: Sequence[str] = ()) -> dict[str, Tensor]:
        """Return what ``streamed`` yields as this process holds it: whole, or shards."""
        tensors: dict[str, Tensor] = {"updates": torch.tensor(self.updates)}
        for part, parameters in self._parts().items():
            if not parts or part in parts:
                tensors |= {f"{part}/{name}": parameter.detach() for name, parameter in parameters.items()}
        for name, parameter in self.parameters.items() if not parts else ():
            for moment, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{moment}/{name}"] = torch.as_tensor(value)
        if self.average is not None:
            tensors["averaged"] = torch.tensor(self.average.updates)
        if self.waist is not None and not parts:
            tensors["trainer"] = torch.tensor(list(self._save_elsewhere().encode()), dtype=torch.uint8)
        for key, mean in self.entropy_means.items():
            tensors[f"entropy_mean/{key}"] = torch.tensor(mean, dtype=torch.float64)
        return tensors

    def former_model(self, path: Path) -> LanguageModel:
        """Return a model with the weights of what ``save`` wrote. Raises UsageError if they do not fit."""
        lm = self.lm.frozen_copy()
        if path.is_dir():
            layouts, updates = layouts_of(path), torch.empty((), dtype=torch.int64)
            targets = {f"weights/{name}": parameter.detach() for name, parameter in lm.parameters().items()}
            for key, target in targets.items():
                if key not in layouts or layouts[key].shape != tuple(target.shape):
                    saved = torch.empty(layouts[key].shape, device="meta") if key in layouts else None
                    _copy_into(target, saved, key, str(path))
            read_parts(path, targets | {"updates": updates}, together=False)
            lm.version = int(updates)
            return lm
        with _opened(path) as file:
            names = set(file.keys())
            for name, parameter in lm.parameters().items():
                key = f"weights/{name}"
                _copy_into(parameter, file.get_tensor(key) if key in names else None, key, str(path))
            lm.version = int(file.get_tensor("updates"))
        return lm

    def load_tensors(self, tensors: Mapping[str, Tensor], origin: str) -> None:
        """Load what ``tensors`` returned. Raises UsageError, naming ``origin``, if it does not fit this model."""
        self.load_stream(tensors.items(), origin)

    def load_stream(self, stream: Iterable[tuple[str, Tensor]], origin: str, parts: Sequence[str] = ()) -> None:
        """Load what ``streamed`` yielded of these parts, one tensor at a time.

        Raises UsageError, naming ``origin``, if it does not fit this model.
        """
        self.frozen_results.clear()
        self.optimizer.state.clear()
        self.entropy_means = {}
        wanted = {
            f"{part}/{name}": parameter
            for part, parameters in self._parts().items()
            if not parts or part in parts
            for name, parameter in parameters.items()
        }
        saved_elsewhere = ""
        for key, tensor in stream:
            kind, _, name = key.partition("/")
            if key in wanted:
                _copy_into(wanted.pop(key), tensor, key, origin)
            elif key == "updates":
                self.updates = int(tensor)
            elif key == "averaged" and self.average is not None:
                self.average.updates = int(tensor)
            elif key == "trainer":
                saved_elsewhere = bytes(tensor.tolist()).decode(errors="replace")
            elif kind == "entropy_mean":
                self.entropy_means[name] = float(tensor)
            else:
                self._load_moment(kind, name, tensor)
        for key, lacking in wanted.items():
            _copy_into(lacking, None, key, origin)
        self._masters.copy_to_model()
        self.resets += 1
        if self.waist is not None and not parts:
            self._load_elsewhere(saved_elsewhere, origin)

    def _refuse_elsewhere(self, what: str) -> None:
        if self.waist is not None:
            raise UsageError(
                f"Policy {self.name!r} {what}, which its remote trainer cannot do. Set trainer.kind = 'torch'."
            )

    def _save_elsewhere(self) -> str:
        """Return where the trainer keeps the present state; once for each update."""
        assert self.waist is not None
        now = self.updates, self.resets
        if self._saved_elsewhere is None or self._saved_elsewhere[0] != now:
            self._saved_elsewhere = now, self.waist.trainer.save(f"{self.name}-{self.updates:06d}")
        return self._saved_elsewhere[1]

    def keep_elsewhere(self, files: Iterable[Path]) -> None:
        """Let a trainer elsewhere forget the states that none of these files, which ``save`` wrote, names."""
        if self.waist is None:
            return
        named = set()
        for path in files:
            with _opened(path) as file:
                if "trainer" in file.keys():  # noqa: SIM118
                    named.add(bytes(file.get_tensor("trainer").tolist()).decode(errors="replace"))
        self.waist.trainer.keep_only(named)

    def _load_elsewhere(self, saved: str, origin: str) -> None:
        """Let the trainer go back to what it kept, and compare its weights with those of ``origin``."""
        assert self.waist is not None
        if not saved:
            raise UsageError(
                f"{origin} does not say where the trainer of policy {self.name!r} keeps its state: the run learned in "
                "its own process. Set trainer.kind = 'torch'."
            )
        self.waist.trainer.load(saved)
        before = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
        self._take_weights()
        if not all(torch.equal(before[name], parameter) for name, parameter in self.parameters.items()):
            raise UsageError(
                f"{origin} has other weights of policy {self.name!r} than the state {saved} of its trainer, which was "
                "saved with them. One of them was changed afterwards; go back to an older checkpoint (--from)."
            )
        self._saved_elsewhere = (self.updates, self.resets), saved

    def _load_moment(self, kind: str, name: str, saved: Tensor) -> None:
        """Load a weight's moment, if it is one of the optimiser's."""
        if kind in STATE[self._optimizer_name] and name in self.parameters:  # another optimiser's is ignored
            parameter = self.parameters[name]
            self.optimizer.state[parameter][kind] = self._moment(kind, saved, parameter)
            if self._away is not None:
                self._away.put_away(parameter)

    def _moment(self, name: str, saved: Tensor, parameter: Parameter) -> Tensor | int:
        """Return a saved moment as the optimiser needs it: on the parameter's device.

        Unless it is fused, a step count is on the CPU, or an int.
        """
        if name == "step" and not self.optimizer.defaults.get("fused"):
            return saved.clone() if saved.is_floating_point() else int(saved)
        return shard_like(saved, parameter).clone()

    def _parts(self) -> dict[str, Mapping[str, Tensor]]:
        """Return this policy's weights, without a shared base, by part and by name."""
        parts: dict[str, Mapping[str, Tensor]] = {"weights": self.parameters}
        for lm in (self.magnet, self.reference):
            if lm is not None:
                reshard(lm.model)
        if self.magnet is not None:
            parts["magnet"] = self.magnet.parameters()
        if self.average is not None:
            parts["average"] = self.average.means
        if self.reference is not None and self.reference.adapters is None:  # an adapter's reference is its base
            parts["reference"] = self.reference.parameters()
        return parts


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file whose tensors are read one by one."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise UsageError(
            f"{path} cannot be read as safetensors: {error}. It was cut short or changed after it was saved. Put an "
            "intact copy there, or start the run again in another folder."
        ) from error


def _below(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``part/``, by the rest of their names."""
    return {name.removeprefix(f"{part}/"): t for name, t in tensors.items() if name.startswith(f"{part}/")}


def _copy_into(parameter: Tensor, saved: Tensor | None, key: str, origin: str) -> None:
    if saved is None or saved.shape != parameter.shape:
        saved_shape = "nothing" if saved is None else f"shape {tuple(saved.shape)}"
        raise UsageError(
            f"{origin} holds {saved_shape} for {key}, but the model needs shape {tuple(parameter.shape)}. The run was "
            "started with another model; resume it with its own config.toml."
        )
    with torch.no_grad():
        parameter.copy_(shard_like(saved, parameter))
