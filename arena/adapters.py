"""LoRA adapters on one base model that is held in memory once (LoRA: arXiv 2106.09685), through PEFT.

Each adapter is a language model of its own to look at: a view that puts its adapter in force just before
every forward pass, so that views, and the bare base, may take turns in any order. Nothing is merged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from transformers.pytorch_utils import Conv1D

from arena.lm import LanguageModel
from games.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from peft import LoraConfig
    from peft.tuners.lora import LoraLayer

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
_NOT_PLAIN = ("use_dora", "use_rslora", "modules_to_save", "rank_pattern", "alpha_pattern", "lora_bias")
_PREFIX = "base_model.model."  # what PEFT puts before the names of modules in its files


class AdapterShape(NamedTuple):
    """What an adapter consists of: W x + alpha / rank * B A x in each of its modules, A [rank, in], B [out, rank]."""

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ()  # last parts of the modules' names; none: every linear layer but the head


class Adapters:
    """The adapters on one base. ``base`` itself goes on playing as if it had none."""

    def __init__(self, base: LanguageModel, source: str) -> None:
        """Take ``base``; ``source`` tells readers of an adapter's folder where its base is."""
        self.base, self._source = base, source
        self._linear = linear_layers(base.model)  # before they are wrapped
        self._layers: list[tuple[str, LoraLayer]] = []  # those with an adapter, by the module's name
        self._shapes: dict[str, AdapterShape] = {}
        self._numbers = count()
        self._active: str | None = None
        base.model.requires_grad_(False)
        base.model.zero_grad(set_to_none=True)  # of its cold start
        base.adapters = self

    def add(self, shape: AdapterShape, seed: int) -> AdapterLM:
        """Return a trainable adapter that does nothing yet (B = 0); ``seed`` fixes its A.

        Raises UsageError, with the names that there are, for targets that name no module, and for a
        model that PEFT cannot adapt.
        """
        return self._add(shape, seed, trained=True)

    def with_weights(self, folder: Path) -> AdapterLM:
        """Return a frozen adapter from a folder that PEFT or ``AdapterLM.save`` wrote.

        Raises UsageError, with the folder named, if it does not fit the base.
        """
        try:
            view = self._add(read_shape(folder), 0, trained=False)
        except UsageError as error:
            raise UsageError(f"The adapter in {folder} cannot be put on its base. {error}") from error
        try:
            _fill(view.parameters(), load_file(folder / WEIGHTS_FILE), folder)
        except BaseException:
            view.release()
            raise
        return view

    def copy(self, adapter: str, *, trained: bool) -> AdapterLM:
        """Return another adapter with the weights that one has now."""
        view = self._add(self._shapes[adapter], 0, trained=trained)
        with torch.no_grad():
            for own, other in zip(view.parameters().values(), self.parameters(adapter).values(), strict=True):
                own.copy_(other)
        return view

    def activate(self, adapter: str | None) -> None:
        """Let the next forward passes run with one adapter, or none."""
        if adapter != self._active:
            for _, layer in self._layers:
                # PEFT's own setter would also take the gradients of all others away.
                layer._active_adapter = [] if adapter is None else [adapter]
            self._active = adapter

    def delete(self, adapter: str) -> None:
        """Free an adapter's memory."""
        self.activate(None)
        for _, layer in self._layers:
            layer.delete_adapter(adapter)
        del self._shapes[adapter]

    def parameters(self, adapter: str) -> dict[str, Parameter]:
        """Return an adapter's weights by the names that PEFT gives them in files, without its prefix."""
        return {
            f"{name}.{part}.weight": getattr(layer, part)[adapter].weight
            for name, layer in self._layers
            if adapter in layer.lora_A
            for part in ("lora_A", "lora_B")
        }

    def describe(self, adapter: str) -> dict[str, Any]:
        """Return the content of an adapter's configuration file; equal adapters give equal text."""
        config: dict[str, Any] = self._config(self._shapes[adapter]).to_dict()  # type: ignore[no-untyped-call]
        config |= {"inference_mode": True, "base_model_name_or_path": self._source, "task_type": "CAUSAL_LM"}
        return {key: sorted(value) if isinstance(value, set) else value for key, value in config.items()}

    @torch.inference_mode(False)  # an engine adds while it samples; PEFT touches all weights when others are added
    def _add(self, shape: AdapterShape, seed: int, *, trained: bool) -> AdapterLM:
        from peft import inject_adapter_in_model  # takes seconds to import

        adapter, model = f"adapter{next(self._numbers)}", self.base.model
        config = self._config(shape)
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed % 2**63)
                inject_adapter_in_model(config, model, adapter)
        except ValueError as error:
            raise UsageError(
                f"PEFT cannot adapt {', '.join(sorted(config.target_modules or ()))} of {type(model).__name__}: "
                f"{str(error).rstrip('.')}. "
                f"Set the policy's targets to others of its linear layers ({', '.join(_ends(self._linear))})."
            ) from error
        del model.peft_config  # kept here; PEFT warns of a model that has one already
        self._shapes[adapter] = shape
        self._layers = [(name, layer) for name, layer in model.named_modules() if hasattr(layer, "lora_A")]
        self._active = adapter
        view = AdapterLM(self, adapter)
        for parameter in view.parameters().values():
            parameter.data = parameter.data.float()  # small steps are lost in bfloat16
            parameter.requires_grad_(trained)
        self.activate(None)
        return view

    def _config(self, shape: AdapterShape) -> LoraConfig:
        from peft import LoraConfig

        targets = check_targets(self.base.model, self._linear, shape.targets)
        alpha = int(shape.alpha) if shape.alpha == int(shape.alpha) else shape.alpha
        transposed = any(isinstance(self._linear[name], Conv1D) for name in _matching(self._linear, targets))
        return LoraConfig(
            r=shape.rank,
            lora_alpha=alpha,  # type: ignore[arg-type]  # scales like any number
            target_modules=targets,
            fan_in_fan_out=transposed,
        )


class AdapterLM(LanguageModel):
    """The base of ``adapters`` with one of them in force."""

    def __init__(self, adapters: Adapters, adapter: str) -> None:
        super().__init__(adapters.base.model, adapters.base.tokenizer)
        self._tries = adapters.base._tries
        self.adapters: Adapters = adapters
        self.adapter = adapter

    def forward(self, **inputs: Any) -> Any:
        """See ``LanguageModel``."""
        self.adapters.activate(self.adapter)
        return self.model(**inputs)

    def parameters(self) -> dict[str, Parameter]:
        """Return the adapter's weights alone, by name."""
        return self.adapters.parameters(self.adapter)

    def copy(self) -> LanguageModel:
        """Return another adapter on the same base, with weights of its own, equal to these."""
        return self.adapters.copy(self.adapter, trained=True)

    def frozen_copy(self) -> LanguageModel:
        """Return a frozen adapter with the weights of this moment, on the same base."""
        return self.adapters.copy(self.adapter, trained=False)

    def untrained(self) -> LanguageModel:
        """Return the base with adapters off."""
        return self.adapters.base

    def with_weights(self, folder: Path) -> LanguageModel:
        """Return another adapter on the same base, with the weights that ``save`` wrote."""
        return self.adapters.with_weights(folder)

    def save(self, folder: Path) -> None:
        """Write the adapter as PEFT does: its weights and configuration, without the base or the tokenizer."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"{_PREFIX}{name}": weight.detach().contiguous() for name, weight in self.parameters().items()}
        save_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})
        text = json.dumps(self.adapters.describe(self.adapter), indent=2, sort_keys=True)
        (folder / CONFIG_FILE).write_text(f"{text}\n", encoding="utf-8")

    def release(self) -> None:
        """Free the adapter; this view cannot be used after."""
        self.adapters.delete(self.adapter)


def linear_layers(model: Any) -> dict[str, Module]:
    """Return the linear layers of a model by name, all but the head."""
    head = model.get_output_embeddings()
    layers = {name: module for name, module in model.named_modules() if isinstance(module, Linear | Conv1D)}
    return {name: module for name, module in layers.items() if module is not head}


def check_targets(model: Any, linear: Mapping[str, Module], targets: tuple[str, ...]) -> list[str]:
    """Return the targets, or by default the names of all linear layers.

    Raises UsageError for a target that is none of them, and for a model without any.
    """
    if not linear:
        raise UsageError(
            f"{type(model).__name__} has no linear layer that LoRA could adapt. Use a policy of kind 'full'."
        )
    for target in targets:
        if not _matching(linear, (target,)):
            raise unknown_name(f"linear layer of {type(model).__name__}", target, _ends(linear))
    return sorted(targets) or _ends(linear)


def is_adapter(folder: str | Path) -> bool:
    """Return whether a folder holds an adapter rather than a whole model."""
    return (Path(folder) / CONFIG_FILE).is_file()


def read_shape(folder: Path) -> AdapterShape:
    """Return the shape of the adapter in a folder. Raises UsageError for one that is no plain LoRA."""
    config = _read_config(folder)
    try:
        shape = AdapterShape(int(config["r"]), float(config["lora_alpha"]), tuple(config["target_modules"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder / CONFIG_FILE} does not describe a LoRA adapter ({error!r}).") from error
    odd = [key for key in _NOT_PLAIN if config.get(key)]
    odd += ["a pattern of target_modules"] if isinstance(config["target_modules"], str) else []
    odd += [str(config.get("peft_type"))] if config.get("peft_type") != "LORA" else []
    if odd:
        raise UsageError(
            f"{folder} holds an adapter other than plain LoRA ({', '.join(odd)}), which is "
            "not supported. Merge it into its base with PEFT, and use that model."
        )
    return shape


def load_model(source: str | Path, *, device: str = "cpu", dtype: str = "float32") -> LanguageModel:
    """Return the model of a folder or hub id, as ``LanguageModel.load``; an adapter's folder comes on its own base.

    A base that is given as a path is looked for from the adapter's folder.
    """
    if not is_adapter(source):
        return LanguageModel.load(source, device=device, dtype=dtype)
    folder = Path(source)
    name = _read_config(folder).get("base_model_name_or_path")
    if not name:
        raise UsageError(f"The adapter in {folder} does not say which model it adapts (base_model_name_or_path).")
    base = LanguageModel.load(folder / name if (folder / name).is_dir() else name, device=device, dtype=dtype)
    return Adapters(base, name).with_weights(folder)


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / CONFIG_FILE} cannot be read ({error}). Restore it from a copy.") from error
    return config


def _fill(parameters: Mapping[str, Tensor], saved: Mapping[str, Tensor], folder: Path) -> None:
    """Copy an adapter's saved weights into its parameters, all of them."""
    found = {name.removeprefix(_PREFIX): weight for name, weight in saved.items()}
    for name in sorted(parameters.keys() | found.keys()):
        sizes = [tuple(weights[name].shape) if name in weights else None for weights in (found, parameters)]
        if sizes[0] != sizes[1]:
            raise UsageError(
                f"The adapter in {folder} has {sizes[0] or 'nothing'} for {name}, where its base has "
                f"{sizes[1] or 'nothing'}. It was trained on another model."
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(found[name])


def _ends(linear: Mapping[str, Module]) -> list[str]:
    return sorted({name.rpartition(".")[2] for name in linear})


def _matching(linear: Mapping[str, Module], targets: tuple[str, ...] | list[str]) -> list[str]:
    """Return the layers that targets name, as PEFT reads them: whole, or by the last parts of a name."""
    return [name for name in linear if any(name == target or name.endswith(f".{target}") for target in targets)]
