"""Weights on their way between machines that share no disk: the files that they would be, as bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import safetensors.torch

from arena.adapters import CONFIG_FILE, AdapterLM
from arena.cluster import Ref
from arena.lm import LanguageModel

Files = dict[str, bytes]  # content by name
WEIGHTS_FILE = "model.safetensors"


class Parcel(NamedTuple):
    """A player's weights, which lie in the cluster's object store."""

    version: str  # equal versions of a player have equal weights
    files: Ref  # to Files
    adapter: bool
    live: bool  # they change: the next version takes the place of this one


class Base(NamedTuple):
    """The model whose weights all players' take the place of, or that all their adapters are on."""

    source: str  # a hub id, which every machine loads by itself; or empty
    files: Ref | None  # to Files, in Hugging Face layout


def read_files(folder: Path) -> Files:
    """Return the files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def write_files(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write files into a folder, which is made if it is missing; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def live_files(lm: LanguageModel) -> Files:
    """Return the weights that a model has now: those of an adapter as PEFT writes them, else the parameters alone."""
    if isinstance(lm, AdapterLM):
        return saved_files(lm)
    tensors = {name: parameter.detach().contiguous() for name, parameter in lm.parameters().items()}
    return {WEIGHTS_FILE: safetensors.torch.save(tensors, {"format": "pt"})}


def snapshot_files(folder: Path) -> Files:
    """Return the weights in a snapshot's folder, without what the base has too."""
    return {
        name: content
        for name, content in read_files(folder).items()
        if name.endswith(".safetensors") or name == CONFIG_FILE
    }


def saved_files(lm: LanguageModel) -> Files:
    """Return all that a model saves."""
    with tempfile.TemporaryDirectory() as folder:
        lm.save(Path(folder))
        return read_files(Path(folder))
