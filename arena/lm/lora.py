"""LoRA adapters (arXiv 2106.09685) through PEFT, on one base model that is held in memory once.

Each adapter is a view with a language model's interface: it activates its adapter just before every forward pass, so
that views and the bare base may take turns in any order. Nothing is merged.
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

from arena.lm.adapted_pass import AdaptedPass
from arena.lm.language_model import LanguageModel
from arena.lm.tensors import adapted_layers
from games.common.errors import UsageError, unknown_name
from games.common.files import read_json

if TYPE_CHECKING:
    from peft import LoraConfig

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
_NOT_PLAIN = ("use_dora", "use_rslora", "modules_to_save", "rank_pattern", "alpha_pattern", "lora_bias")
_PREFIX = "base_model.model."  # what PEFT puts before the names of modules in its files


class AdapterShape(NamedTuple):
    """An adapter computes W x + alpha / rank * B A x in each of its modules, with A [rank, in] and B [out, rank]."""

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ()  # last parts of the modules' names; empty: every linear layer but the head


class Adapters:
    """The adapters on one base. ``base`` itself runs without them."""

    def __init__(self, base: LanguageModel, source: str) -> None:
        """Put adapters on ``base``; saved adapters name ``source`` as their base."""
        self.base, self._source = base, source
        self._linear = linear_layers(base.model)  # before they are wrapped
        self.layers: list[tuple[str, Any]] = []  # those with an adapter (PEFT's LoraLayer), by the module's name
        self._shapes: dict[str, AdapterShape] = {}
        self._numbers = count()
        self.passes = AdaptedPass.of(base.model) if base.shares_prefix else None
        self.active: str | None = None
        base.model.requires_grad_(False)
        base.model.zero_grad(set_to_none=True)  # gradients of its cold start
        base.adapters = self

    def add(self, shape: AdapterShape, seed: int) -> AdapterLM:
        """Return a trainable adapter that does nothing yet (B = 0); ``seed`` fixes its A.

        Raises UsageError, with the names of all modules, for targets that name none, and for a model that PEFT
        cannot adapt.
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
            _load_weights(view.parameters(), load_file(folder / WEIGHTS_FILE), folder)
        except BaseException:
            view.release()
            raise
        return view

    def copy(self, adapter: str, *, trained: bool) -> AdapterLM:
        """Return a copy of an adapter with its present weights."""
        view = self._add(self._shapes[adapter], 0, trained=trained)
        with torch.no_grad():
            for parameter, source in zip(view.parameters().values(), self.parameters(adapter).values(), strict=True):
                parameter.copy_(source)
        return view

    def activate(self, adapter: str | None) -> None:
        """Run the next forward passes with this adapter, or with none."""
        if adapter != self.active:
            for _, layer in self.layers:
                # PEFT's own setter would also switch off the gradients of all other adapters.
                layer._active_adapter = [] if adapter is None else [adapter]
                layer.mixture = ()
            self.active = adapter

    def passes_for(self, inputs: Mapping[str, Any]) -> AdaptedPass | None:
        """Return what computes a pass with these inputs without ``transformers``' modules, where that suits."""
        own = self.passes
        return own if own is not None and own.takes(inputs) and own.suits() else None

    def delete(self, adapter: str) -> None:
        """Free an adapter's memory."""
        self.activate(None)
        for _, layer in self.layers:
            layer.delete_adapter(adapter)
        del self._shapes[adapter]

    def parameters(self, adapter: str) -> dict[str, Parameter]:
        """Return an adapter's weights by the names that PEFT gives them in files, without its prefix."""
        return {
            f"{name}.{part}.weight": getattr(layer, part)[adapter].weight
            for name, layer in self.layers
            if adapter in layer.lora_A
            for part in ("lora_A", "lora_B")
        }

    def describe(self, adapter: str) -> dict[str, Any]:
        """Return the content of an adapter's configuration file; equal adapters give equal text."""
        config: dict[str, Any] = self._config(self._shapes[adapter]).to_dict()  # type: ignore[no-untyped-call]
        config |= {"inference_mode": True, "base_model_name_or_path": self._source, "task_type": "CAUSAL_LM"}
        return {key: sorted(value) if isinstance(value, set) else value for key, value in config.items()}

    @torch.inference_mode(False)  # an engine adds adapters while it samples; PEFT touches all weights then
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
                f"Set the policy's targets to other linear layers of it ({', '.join(_short_names(self._linear))})."
            ) from error
        del model.peft_config  # PEFT warns of a model that has one already
        self._shapes[adapter] = shape
        self.layers = adapted_layers(model)
        self.active = adapter
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
    """A view of the base of ``adapters`` with one of them active."""

    def __init__(self, adapters: Adapters, adapter: str) -> None:
        super().__init__(adapters.base.model, adapters.base.tokenizer, adapters.base)
        self.adapters: Adapters = adapters
        self.adapter = self.view = adapter

    def forward(self, **inputs: Any) -> Any:
        """See ``LanguageModel``."""
        if (own := self.adapters.passes_for(inputs)) is not None:
            return own(self.adapter, **inputs)
        self.adapters.activate(self.adapter)
        return self.model(**inputs)

    def parameters(self) -> dict[str, Parameter]:
        """Return the adapter's weights by name, without the base's."""
        return self.adapters.parameters(self.adapter)

    def copy(self) -> LanguageModel:
        """Return a trainable copy of the adapter, on the same base."""
        return self.adapters.copy(self.adapter, trained=True)

    def frozen_copy(self) -> LanguageModel:
        """Return a frozen copy of the adapter, on the same base."""
        return self.adapters.copy(self.adapter, trained=False)

    def untrained(self) -> LanguageModel:
        """Return the base without adapters."""
        return self.adapters.base

    def with_weights(self, folder: Path) -> LanguageModel:
        """Return another adapter on the same base, with the weights that ``save`` wrote."""
        return self.adapters.with_weights(folder)

    def save(self, folder: Path) -> None:
        """Write the adapter in PEFT's layout: its weights and configuration, without the base or the tokenizer."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"{_PREFIX}{name}": weight.detach().contiguous() for name, weight in self.parameters().items()}
        save_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})
        text = json.dumps(self.adapters.describe(self.adapter), indent=2, sort_keys=True)
        (folder / CONFIG_FILE).write_text(f"{text}\n", encoding="utf-8")

    def release(self) -> None:
        """Free the adapter; this view cannot be used afterwards."""
        self.adapters.delete(self.adapter)


def linear_layers(model: Any) -> dict[str, Module]:
    """Return the linear layers of a model by name, without the head."""
    head = model.get_output_embeddings()
    layers = {name: module for name, module in model.named_modules() if isinstance(module, Linear | Conv1D)}
    return {name: module for name, module in layers.items() if module is not head}


def check_targets(model: Any, linear: Mapping[str, Module], targets: tuple[str, ...]) -> list[str]:
    """Return the targets, or by default the names of all linear layers.

    Raises UsageError for a target that is none of them, and for a model without any.
    """
    if not linear:
        raise UsageError(f"{type(model).__name__} has no linear layer that LoRA could adapt. Use weights = 'full'.")
    for target in targets:
        if not _matching(linear, (target,)):
            raise unknown_name(f"linear layer of {type(model).__name__}", target, _short_names(linear))
    return sorted(targets) or _short_names(linear)


def is_adapter(folder: str | Path) -> bool:
    """Return whether a folder holds an adapter rather than a whole model."""
    return (Path(folder) / CONFIG_FILE).is_file()


def read_shape(folder: Path) -> AdapterShape:
    """Return the shape of the adapter in a folder. Raises UsageError for an adapter that is not plain LoRA."""
    config = _read_config(folder)
    try:
        shape = AdapterShape(int(config["r"]), float(config["lora_alpha"]), tuple(config["target_modules"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder / CONFIG_FILE} does not describe a LoRA adapter ({error!r}).") from error
    unsupported = [key for key in _NOT_PLAIN if config.get(key)]
    unsupported += ["a pattern of target_modules"] if isinstance(config["target_modules"], str) else []
    unsupported += [str(config.get("peft_type"))] if config.get("peft_type") != "LORA" else []
    if unsupported:
        raise UsageError(
            f"{folder} holds an adapter other than plain LoRA ({', '.join(unsupported)}), which is "
            "not supported. Merge it into its base with PEFT, and use that model."
        )
    return shape


def load_model(source: str | Path, *, device: str = "cpu", dtype: str = "float32") -> LanguageModel:
    """Return the model of a folder or hub id, as ``LanguageModel.load``; an adapter is loaded on its base."""
    if not is_adapter(source):
        return LanguageModel.load(source, device=device, dtype=dtype)
    folder = Path(source)
    base = adapter_base(folder)
    return Adapters(LanguageModel.load(base, device=device, dtype=dtype), str(base)).with_weights(folder)


def adapter_base(folder: Path) -> Path | str:
    """Return the model that the adapter in a folder adapts: a path or a hub id. Raises UsageError if it does not say.

    The path of a base is relative to the adapter's folder.
    """
    name = _read_config(folder).get("base_model_name_or_path")
    if not name:
        raise UsageError(f"The adapter in {folder} does not say which model it adapts (base_model_name_or_path).")
    return folder / name if (folder / name).is_dir() else str(name)


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = read_json(folder / CONFIG_FILE)
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / CONFIG_FILE} cannot be read ({error}). Restore it from a copy.") from error
    return config


def _load_weights(parameters: Mapping[str, Tensor], saved: Mapping[str, Tensor], folder: Path) -> None:
    """Copy an adapter's saved weights into its parameters, all of them."""
    weights = {name.removeprefix(_PREFIX): weight for name, weight in saved.items()}
    for name in sorted(parameters.keys() | weights.keys()):
        saved_shape, shape = (tuple(t[name].shape) if name in t else None for t in (weights, parameters))
        if saved_shape != shape:
            raise UsageError(
                f"The adapter in {folder} has {saved_shape or 'nothing'} for {name}, where its base has "
                f"{shape or 'nothing'}. It was trained on another model."
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def _short_names(linear: Mapping[str, Module]) -> list[str]:
    return sorted({name.rpartition(".")[2] for name in linear})


def _matching(linear: Mapping[str, Module], targets: tuple[str, ...] | list[str]) -> list[str]:
    """Return the layers that targets name, as PEFT reads them: by the full name or its last parts."""
    return [name for name in linear if any(f".{name}".endswith(f".{target}") for target in targets)]
