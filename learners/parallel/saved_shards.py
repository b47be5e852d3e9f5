"""The state of shards as files: each process writes its part beside training, and any number of processes reads them.

By ``torch.distributed.checkpoint`` in its safetensors format: the default one keeps its index in a pickle. A file holds
the parts of some tensors that one process has, and its header says where in the whole tensors they lie.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor

from games.common.errors import UsageError
from learners.parallel.streamed_file import TensorLayout

if TYPE_CHECKING:  # it is slow to import
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

FILE_BYTES = 1 << 28  # of whole tensors in a file at most, unless one is larger: a file is made in memory
TIMEOUT = timedelta(days=7)  # a process waits for the slowest disk


class PartWriter:
    """Writes the parts of states, of which each has a name; a state's next writing waits for its last.

    All processes that share a state begin its writing at the same time; what they then tell one another does not mix
    with an update's messages.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dist.ProcessGroup] = {}
        self._writing: dict[str, Future[Any]] = {}

    def begin(self, name: str, folder: Path, tensors: Mapping[str, Tensor]) -> Future[None]:
        """Copy this process's tensors to main memory, and write them to a folder meanwhile.

        The result is there when all processes have written (``wait_for``).
        """
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import async_save

        self._wait(name)
        if name not in self._groups:
            self._groups[name] = dist.new_group(backend="gloo", timeout=TIMEOUT)
        folder.mkdir(exist_ok=True)
        writer = HuggingFaceStorageWriter(str(folder), _files(tensors), save_distributed=True)
        begun = async_save(dict(tensors), storage_writer=writer, process_group=self._groups[name])
        self._writing[name] = cast("Future[None]", begun)
        return self._writing[name]

    def finish(self) -> None:
        """Wait for all that was begun; errors are told to whom ``begin`` gave the result."""
        for name in self._writing:
            self._wait(name)

    def _wait(self, name: str) -> None:
        if name in self._writing:
            self._writing[name].exception()


def _files(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return the number of the file, from 1, in which a process puts its part of each tensor."""
    numbers, number, filled = dict[str, int](), 1, 0
    for name, tensor in tensors.items():
        size = TensorLayout.of(tensor).bytes
        if filled and filled + size > FILE_BYTES:
            number, filled = number + 1, 0
        numbers[name], filled = number, filled + size
    return numbers


def wait_for(writing: Future[None]) -> None:
    """Wait until all processes have written. Raises OSError or RuntimeError if one could not."""
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        writing.result()
    except CheckpointException as failed:  # not an Exception
        raise _error_of(failed) from None


def _error_of(failed: CheckpointException) -> Exception:
    """Return the error of the first process that could not write or read its part."""
    rank, (error, _) = min(failed.failures.items(), key=lambda item: item[0])
    if isinstance(error, OSError):
        return error
    return RuntimeError(f"process {rank} had no success with its part of a state: {error}")


def layouts_of(folder: Path) -> dict[str, TensorLayout]:
    """Return the tensors whose parts are in a folder, by name. Raises UsageError unless the parts make them whole."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    try:
        found = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
        layouts = {name: _whole(cast("TensorStorageMetadata", parts)) for name, parts in found.items()}
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise UsageError(f"{folder} does not hold the parts of a state ({error!r}). {_REMEDY}") from error
    lacking = sorted(name for name, layout in layouts.items() if layout is None)
    if lacking or not layouts:
        what = f"lacks a part of {lacking[0]}" if lacking else "holds no state"
        raise UsageError(f"{folder} {what}. {_REMEDY}")
    return {name: layout for name, layout in layouts.items() if layout is not None}


_REMEDY = (
    "A file of it was cut off, removed or changed after it was saved. Put a whole copy of the folder there, or go back "
    "to an older checkpoint (--from)."
)


def _whole(parts: TensorStorageMetadata) -> TensorLayout | None:
    """Return the layout of a tensor whose parts follow one another along its first dimension; None if they do not."""
    end = 0
    for part in sorted(parts.chunks, key=lambda part: (*part.offsets[:1], *part.sizes[:1])):
        if tuple(part.sizes[1:]) != tuple(parts.size[1:]) or any(part.offsets[1:]):
            return None
        if part.offsets[:1] and part.sizes[0]:
            if part.offsets[0] != end:
                return None
            end += part.sizes[0]
    if len(parts.size) and end != parts.size[0]:
        return None
    return TensorLayout(tuple(parts.size), parts.properties.dtype)


def read_parts(folder: Path, targets: Mapping[str, Tensor], *, together: bool) -> None:
    """Fill tensors, whole ones or shards, from a folder in which ``layouts_of`` finds them.

    ``together``: all processes of the default group read their shards, at the same time.
    """
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            load(dict(targets), storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=not together)
    except CheckpointException as failed:
        raise UsageError(f"{folder} cannot be read: {_error_of(failed)}. {_REMEDY}") from failed
