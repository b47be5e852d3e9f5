"""Sequences in the middle of decoding: what a model keeps so as to read one more token of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

from arena.chunks import Chunk
from arena.lm import LanguageModel

HELD = 1 << 16  # padded tokens whose keys and values one batch may hold: far more than are read at once
SPARSE = 0.75  # share of a batch still in use below which the rest is dropped; dropping copies what is kept


class Steps(Protocol):
    """Sequences being decoded. ``logits`` [N, V] are those of their next tokens."""

    logits: Tensor

    def advance(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """Go on with ``tokens[i]`` after sequence ``parents[i]``; others are dropped, some may repeat."""
        ...


def begin(lm: LanguageModel, chunks: Sequence[Chunk], room: int) -> Iterator[tuple[list[int], Steps]]:
    """Read prompts, one sequence each, that at most ``room`` tokens will follow; yield which ones, and their steps.

    Attention that may share a prefix has its keys and values kept in place. Other attention uses the
    model's own cache, and a model whose cache cannot drop sequences reads everything again at each step.
    """
    if lm.shares_prefix:
        for batch in _batches(chunks, room):
            yield [item for chunk in batch for item in chunk.items], _read_in_place(lm, batch, room)
        return
    for chunk in chunks:
        cache = DynamicCache(config=lm.model.config)
        if all(hasattr(layer, "batch_select_indices") for layer in cache.layers):
            read = lm.run(chunk, 1, cache).logits[:, -1]
            yield list(chunk.items), _Cached(lm, cache, {}, list(map(len, chunk.suffixes)), 0, read)
        else:
            yield list(chunk.items), _Reread(lm, chunk)


def _batches(chunks: Sequence[Chunk], room: int) -> Iterator[list[Chunk]]:
    """Yield chunks to be decoded together: of one prefix, and no more than may be held."""
    batch: list[Chunk] = []
    for chunk in chunks:
        together = [*batch, chunk]
        width = max(len(suffix) for one in together for suffix in one.suffixes) + room
        held = width * sum(len(one.suffixes) for one in together)
        if batch and (chunk.prefix != batch[0].prefix or held > HELD):
            yield batch
            together = [chunk]
        batch = together
    if batch:
        yield batch


def _read_in_place(lm: LanguageModel, batch: Sequence[Chunk], room: int) -> _Cached:
    """Read chunks of one prefix, one after another, into keys and values with ``room`` for what follows."""
    behind = lm.behind(batch[0].prefix)
    reads = [DynamicCache() for _ in batch]
    logits = [lm.run(chunk, 1, read, behind).logits[:, -1] for chunk, read in zip(batch, reads, strict=True)]
    layers: list[Any] = [
        _Roomy([(layer.keys, layer.values) for layer in parts], room)
        for parts in zip(*(read.layers for read in reads), strict=True)
    ]
    suffixes = [len(suffix) for chunk in batch for suffix in chunk.suffixes]
    return _Cached(lm, Cache(layers), behind, suffixes, len(batch[0].prefix), torch.cat(logits))


class _Cached:
    """Steps over keys and values kept in ``cache``, whose rows are padded on the left."""

    def __init__(
        self, lm: LanguageModel, cache: Any, behind: dict[str, Any], lengths: Sequence[int], start: int, logits: Tensor
    ) -> None:
        self._lm, self._cache, self._behind = lm, cache, behind
        self.logits = logits
        self._rows = list(range(len(lengths)))  # the cache's row of each sequence; other rows are no longer used
        own = torch.tensor(lengths, device=logits.device)
        self._positions = own + start  # of each row's next token  # [N]
        width = max(lengths)
        columns = torch.arange(width, device=logits.device)[None]
        self._mask = None if min(lengths) == width else (columns >= width - own[:, None]).long()  # [N, K]

    def advance(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """See ``Steps``."""
        rows = [self._rows[parent] for parent in parents]
        if len(set(rows)) < len(rows) or len(rows) < SPARSE * len(self._positions):
            self._select(rows)
            rows = list(range(len(rows)))
        self._rows = rows
        device, total = self._positions.device, len(self._positions)
        ids = torch.zeros(total, dtype=torch.long, device=device)
        place = torch.tensor(rows, device=device)
        ids[place] = torch.tensor(tokens, device=device)
        if self._mask is not None:
            self._mask = torch.cat([self._mask, self._mask.new_ones(total, 1)], 1)
        output = self._lm.forward(
            input_ids=ids[:, None],
            attention_mask=self._mask,
            position_ids=self._positions[:, None],
            past_key_values=self._cache,
            use_cache=True,
            **self._behind,
        )
        self.logits = output.logits[:, -1] if len(rows) == total else output.logits[place, -1]
        self._positions = self._positions + 1

    def _select(self, rows: list[int]) -> None:
        """Let row i be what row ``rows[i]`` was."""
        kept = torch.tensor(rows, device=self._positions.device)
        self._cache.batch_select_indices(kept)
        self._positions = self._positions[kept]
        self._mask = None if self._mask is None else self._mask[kept]


class _Roomy(DynamicLayer):
    """One layer's keys and values with room behind them: a new token's are written there, and nothing is copied."""

    def __init__(self, parts: Sequence[tuple[Tensor, Tensor]], room: int) -> None:
        """Take over [N, G, S, D] keys and values of several batches, aligned right."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._length = max(keys.shape[2] for keys, _ in parts)
        self._held = [_aligned(tensors, self._length, room) for tensors in zip(*parts, strict=True)]
        self.is_initialized = True
        self._show()

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write [N, G, S, D] behind what is held; return all of it."""
        start, self._length = self._length, self._length + key_states.shape[2]
        for held, states in zip(self._held, (key_states, value_states), strict=True):
            held[:, :, start : self._length] = states
        return self._show()

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the given rows."""
        self._held = [held[indices] for held in self._held]
        self._show()

    def _show(self) -> tuple[Tensor, Tensor]:
        """Let the base class see what is held so far."""
        keys, values = (held[:, :, : self._length] for held in self._held)
        self.keys, self.values = keys, values
        return keys, values


def _aligned(tensors: Sequence[Tensor], width: int, room: int) -> Tensor:
    """Stack batches [N, G, S, D] of several widths S as one, padded left to ``width``, with room on the right."""
    rows, (_, groups, _, size) = sum(map(len, tensors)), tensors[0].shape
    held = tensors[0].new_zeros(rows, groups, width + room, size)
    first = 0
    for tensor in tensors:
        held[first : first + len(tensor), :, width - tensor.shape[2] : width] = tensor
        first += len(tensor)
    return held


class _Reread:
    """Steps of a model without a cache that could be cut by sequence: every step reads all again."""

    def __init__(self, lm: LanguageModel, chunk: Chunk) -> None:
        self._lm, self._texts = lm, chunk.suffixes
        self._read()

    def advance(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """See ``Steps``."""
        self._texts = tuple((*self._texts[parent], token) for parent, token in zip(parents, tokens, strict=True))
        self._read()

    def _read(self) -> None:
        chunk = Chunk((), tuple(range(len(self._texts))), self._texts)
        self.logits: Tensor = self._lm.run(chunk, 1).logits[:, -1]
