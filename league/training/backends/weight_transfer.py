"""Weights sent between machines that share no disk: the bytes of the files that they would be saved as."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import safetensors.torch

from arena.cluster.interface import Cluster, Ref
from arena.lm.language_model import LanguageModel
from arena.lm.lora import CONFIG_FILE, AdapterLM
from league.config.context import RunContext
from league.population.models.base_model import verified_base
from learners.update.policy import Policy

Files = dict[str, bytes]  # content by name
WEIGHTS_FILE = "model.safetensors"


class WeightMessage(NamedTuple):
    """A player's weights in the cluster's object store."""

    version: str  # equal versions of a player have equal weights
    files: Ref  # to Files
    policy: str
    adapter: bool
    live: bool  # in training: the next version replaces this one
    updates: int | None = None  # of weights in training: ``LanguageModel.version``


class BaseWeights(NamedTuple):
    """A base model of a run: adapters are attached to it, and whole models have its shape and tokenizer."""

    source: str  # a hub id, from which every machine loads; or empty
    files: Ref | None  # to Files, in Hugging Face layout
    adapters: bool  # whether adapters are on it


def read_files(folder: Path) -> Files:
    """Return the files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def write_files(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write files into a folder, which is made if it is missing; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def live_files(lm: LanguageModel) -> Files:
    """Return a model's current weights: an adapter's files as PEFT writes them, or only the parameters."""
    if isinstance(lm, AdapterLM):
        return saved_files(lm)
    tensors = {name: parameter.detach().contiguous() for name, parameter in lm.parameters().items()}
    return {WEIGHTS_FILE: safetensors.torch.save(tensors, {"format": "pt"})}


def snapshot_files(folder: Path) -> Files:
    """Return the weights in a snapshot's folder, without the files that the base also has."""
    return {
        name: content
        for name, content in read_files(folder).items()
        if name.endswith(".safetensors") or name == CONFIG_FILE
    }


def saved_files(lm: LanguageModel) -> Files:
    """Return all files that a model saves."""
    with tempfile.TemporaryDirectory() as folder:
        lm.save(Path(folder))
        return read_files(Path(folder))


def put_base(cluster: Cluster, context: RunContext, policies: Mapping[str, Policy]) -> BaseWeights:
    """Put the base that policies share into the cluster's store, unless it is on a hub; return its location."""
    adapted = [name for name in policies if context.config.policy(name).adapted]
    if not adapted:
        first = next(iter(policies.values()))
        return BaseWeights("", cluster.put(saved_files(first.lm)), adapters=False)
    source = verified_base(context.config, context.run_dir, adapted[0])
    if not Path(source).is_dir():
        return BaseWeights(str(source), None, adapters=True)
    return BaseWeights("", cluster.put(read_files(Path(source))), adapters=True)
