"""A GGUF file as a folder in Hugging Face layout: weights dequantised to float32, tokenizer, chat template.

``transformers`` reads such files, but slowly, and does not save what it has read; so this is done once. GGUF is
llama.cpp's format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from gguf import GGUFReader
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

from games.common.errors import UsageError

BYTES_PER_WEIGHT = 4  # float32
_NOT_MODELS = ("general", "tokenizer")  # the other entries of the mapping of architectures
# What the libraries raise for bytes that are no GGUF file or end too early.
_UNREADABLE = (ValueError, IndexError, KeyError, OSError, TypeError, OverflowError, RuntimeError, NotImplementedError)


class GgufFacts(NamedTuple):
    """The metadata of a GGUF file."""

    architecture: str
    licence: str | None
    weights: int  # how many


def read_facts(path: Path) -> GgufFacts:
    """Return a file's facts.

    Raises UsageError for a file that is missing, not GGUF, cut short, of an unknown architecture, or without a chat
    template.
    """
    try:
        reader = GGUFReader(path)
        architecture, licence, template = (
            reader.fields[key].contents() if key in reader.fields else None
            for key in ("general.architecture", "general.license", "tokenizer.chat_template")
        )
        weights = sum(int(tensor.n_elements) for tensor in reader.tensors)
    except FileNotFoundError:
        raise UsageError(f"There is no file {path}.") from None
    except _UNREADABLE as error:
        raise UsageError(
            f"{path} is not a complete GGUF file ({_first_line(error)}): it may be cut short, or another kind of "
            "file. Download or copy it again."
        ) from error
    readable = sorted(set(GGUF_CONFIG_MAPPING) - set(_NOT_MODELS))
    if architecture not in readable:
        raise UsageError(
            f"{path} holds a model of the architecture {architecture!r}, which transformers cannot read from GGUF. It "
            f"can read {', '.join(readable)}. Use the model's folder in Hugging Face layout instead."
        )
    if not template:
        raise UsageError(
            f"{path} holds no chat template, so it is unknown how to prompt this model. Use a model trained "
            "to follow instructions, or a folder in Hugging Face layout with a chat_template.jinja."
        )
    return GgufFacts(str(architecture), None if licence is None else str(licence), weights)


def convert_gguf(path: Path, folder: Path) -> None:
    """Write the model of a GGUF file into a folder: config.json, model.safetensors, tokenizer, chat template.

    The weights are exactly the file's, dequantised to float32. Raises UsageError, as ``read_facts``, and for a file
    that lacks weights of its model; OSError where the folder cannot be written.
    """
    read_facts(path)
    source: dict[str, Any] = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    source["trust_remote_code"] = False  # of files beside it, for which transformers would ask on standard input
    with _quiet():
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(**source)
            loaded: Any = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32, output_loading_info=True)
        except _UNREADABLE as error:
            raise UsageError(f"transformers cannot read {path}: {_first_line(error)}") from error
        read, info = loaded
        if lacking := sorted(info["missing_keys"]):
            raise UsageError(f"{path} lacks {', '.join(lacking[:3])} of its model. Download or copy it again.")
        model = _without_quantisation(read)
        for origin in ("is_local", "local_files_only"):  # of reading, not of the tokenizer
            tokenizer.init_kwargs.pop(origin, None)
        try:
            tokenizer.save_pretrained(folder)
            model.save_pretrained(folder)
        except SafetensorError as error:
            raise OSError(str(error)) from error


def content_name(path: Path) -> str:
    """Return a name for a file by its content. Raises UsageError for a file that cannot be read."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file. Name a .gguf file.")
    try:
        with path.open("rb") as file:
            return f"gguf-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None


def _without_quantisation(read: Any) -> Any:
    """Return the same model made from its configuration: one that was read from GGUF refuses to be saved."""
    plain = {key: value for key, value in read.config.to_dict().items() if key != "quantization_config"}
    config = type(read.config).from_dict(plain)
    config._name_or_path = ""
    with torch.device("meta"):  # without memory or initial weights of its own
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = read.generation_config
    return model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' progress bars and advice out of the terminal: what matters is raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
            yield
    finally:
        logging.disable(before)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
