"""Decoding states: the keys and values that a model keeps to read one more token of each sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

from arena.lm.attention.prefix_attention import KeysValues
from arena.lm.chunks import Chunk, tokens_of
from arena.lm.decoding.stacked_pass import StackedPass
from arena.lm.language_model import LanguageModel
from arena.lm.tensors import heads

MAX_CACHED_TOKENS = 1 << 16  # padded tokens of one batch in the cache: far more than are read in one pass
MIN_USED_SHARE = 0.75  # of a batch's rows, below which unused rows are dropped; dropping copies the others

_Step = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # ids [N, 1], positions [N, 1], mask [N, K] -> logits [N, V]


class DecodingState(Protocol):
    """Sequences being decoded. ``logits`` [N, V] are those of their next tokens."""

    logits: Tensor

    def advance(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """Append ``tokens[i]`` to sequence ``parents[i]``: a parent may appear several times, or not at all."""
        ...


def prefill(
    lm: LanguageModel, chunks: Sequence[Chunk], max_new_tokens: int
) -> Iterator[tuple[list[int], DecodingState]]:
    """Read chunks of prompts to be followed by ``max_new_tokens`` at most; yield prompts' indices with their state.

    A model that shares prefixes writes keys and values into a preallocated cache. Other models use their own cache;
    one whose cache cannot select sequences reads everything again at each step.
    """
    if lm.shares_prefix:
        for batch in _batches(chunks, max_new_tokens):
            yield [item for chunk in batch for item in chunk.items], _read_in_place(lm, batch, max_new_tokens)
        return
    for chunk in chunks:
        cache = DynamicCache(config=lm.model.config)
        if all(hasattr(layer, "batch_select_indices") for layer in cache.layers):
            logits = lm.run(chunk, 1, cache).logits[:, -1]
            lengths = list(map(len, chunk.suffixes))
            yield list(chunk.items), _Cached(lm, cache, _by_model(lm, cache, {}), lengths, 0, logits)
        else:
            yield list(chunk.items), _Uncached(lm, chunk)


def _batches(chunks: Sequence[Chunk], max_new_tokens: int) -> Iterator[list[Chunk]]:
    """Yield chunks to be decoded together: behind one prefix, of at most ``MAX_CACHED_TOKENS``."""
    batch: list[Chunk] = []
    for chunk in chunks:
        larger = [*batch, chunk]
        suffixes = [suffix for member in larger for suffix in member.suffixes]
        cached = (max(map(len, suffixes)) + max_new_tokens) * len(suffixes)
        if batch and (chunk.prefix != batch[0].prefix or cached > MAX_CACHED_TOKENS):
            yield batch
            larger = [chunk]
        batch = larger
    if batch:
        yield batch


def _read_in_place(lm: LanguageModel, batch: Sequence[Chunk], max_new_tokens: int) -> _Cached:
    """Read chunks behind one prefix, one after another, into one cache with space for ``max_new_tokens`` more."""
    if lm.plain_pass() is not None:
        return _read_stacked(lm, batch, max_new_tokens)
    prefix_inputs = lm.prefix_inputs(batch[0].prefix)
    caches = [DynamicCache() for _ in batch]
    logits = [lm.run(chunk, 1, cache, prefix_inputs).logits[:, -1] for chunk, cache in zip(batch, caches, strict=True)]
    layers: list[Any] = [
        _GrowingLayer([(layer.keys, layer.values) for layer in parts], max_new_tokens)
        for parts in zip(*(cache.layers for cache in caches), strict=True)
    ]
    lengths = [len(suffix) for chunk in batch for suffix in chunk.suffixes]
    cache = Cache(layers)
    return _Cached(lm, cache, _by_model(lm, cache, prefix_inputs), lengths, len(batch[0].prefix), torch.cat(logits))


def _by_model(lm: LanguageModel, cache: Any, prefix_inputs: dict[str, Any]) -> _Step:
    """Return the step of a model over its cache."""

    def step(ids: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        logits: Tensor = lm.forward(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            **prefix_inputs,
        ).logits[:, -1]
        return logits

    return step


def _read_stacked(lm: LanguageModel, batch: Sequence[Chunk], max_new_tokens: int) -> _Cached:
    """Read chunks as ``_read_in_place`` does, by the passes of ``arena.lm.decoding.stacked_pass``."""
    run, prefix = StackedPass(lm.model), batch[0].prefix
    before = run.keys_of(prefix) if prefix else None
    lm.cost.add(*tokens_of([Chunk(prefix, (), ())]), 0)
    lengths = [len(suffix) for chunk in batch for suffix in chunk.suffixes]
    cache = _Slots(lm, lengths, max_new_tokens)
    logits, first = [], 0
    for chunk in batch:
        ids, positions, mask = lm.inputs(chunk)
        lm.cost.add(*tokens_of([chunk], prefixes=False), len(ids))
        kept = cache.block(slice(first, first + len(ids)), ids.shape[1])
        logits.append(run(ids, positions[0] if mask is None else positions, mask, before, kept))
        first += len(ids)

    def step(ids: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        return run(ids, positions, mask, before, cache.grown())

    return _Cached(lm, cache, step, lengths, len(prefix), torch.cat(logits))


class _Slots:
    """Keys [N, G, D, K], each number beside that of the next token, and values [N, G, K, D] of all layers.

    They are padded on the left, with space for more tokens.
    """

    def __init__(self, lm: LanguageModel, lengths: Sequence[int], max_new_tokens: int) -> None:
        _, groups, width = heads(lm.model.config)
        self._length, rows = max(lengths), len(lengths)
        space = self._length + max_new_tokens
        make = torch.empty if min(lengths) == self._length else torch.zeros  # padding is masked, but must be finite
        self._layers = [
            (make(rows, groups, width, space), make(rows, groups, space, width))
            for _ in range(lm.model.config.num_hidden_layers)
        ]

    def block(self, rows: slice, tokens: int) -> KeysValues:
        """Return the last ``tokens`` of some rows.  # [N, G, K, D] each"""
        columns = slice(self._length - tokens, self._length)
        return [(keys[rows, :, :, columns].transpose(2, 3), values[rows, :, columns]) for keys, values in self._layers]

    def grown(self) -> KeysValues:
        """Return all, with one token more.  # [N, G, K, D] each"""
        self._length += 1
        return self.block(slice(None), self._length)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Select rows by index."""
        self._layers = [(keys[indices], values[indices]) for keys, values in self._layers]


class _Cached:
    """A decoding state over ``cache``, whose rows are padded on the left."""

    def __init__(
        self,
        lm: LanguageModel,
        cache: Any,
        step: _Step,
        lengths: Sequence[int],
        start: int,
        logits: Tensor,
    ) -> None:
        self._lm, self._cache, self._step = lm, cache, step
        self.logits = logits
        self._rows = list(range(len(lengths)))  # the cache's row of each sequence; other rows are unused
        suffixes = torch.tensor(lengths, device=logits.device)
        self._positions = suffixes + start  # of each row's next token  # [N]
        width = max(lengths)
        self._width = start + width  # tokens that a new one attends to, at most
        columns = torch.arange(width, device=logits.device)[None]
        self._mask = None if min(lengths) == width else (columns >= width - suffixes[:, None]).long()  # [N, K]

    def advance(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """See ``DecodingState``."""
        rows = [self._rows[parent] for parent in parents]
        if len(set(rows)) < len(rows) or len(rows) < MIN_USED_SHARE * len(self._positions):
            self._select(rows)
            rows = list(range(len(rows)))
        self._rows = rows
        device, total = self._positions.device, len(self._positions)
        ids = torch.zeros(total, dtype=torch.long, device=device)
        used = torch.tensor(rows, device=device)
        ids[used] = torch.tensor(tokens, device=device)
        self._width += 1
        self._lm.cost.add(len(rows), len(rows) * self._width, len(rows))
        if self._mask is not None:
            self._mask = torch.cat([self._mask, self._mask.new_ones(total, 1)], 1)
        logits = self._step(ids[:, None], self._positions[:, None], self._mask)
        self.logits = logits if len(rows) == total else logits[used]
        self._positions = self._positions + 1

    def _select(self, rows: list[int]) -> None:
        """Replace row i by row ``rows[i]``."""
        indices = torch.tensor(rows, device=self._positions.device)
        self._cache.batch_select_indices(indices)
        self._positions = self._positions[indices]
        self._mask = None if self._mask is None else self._mask[indices]


class _GrowingLayer(DynamicLayer):
    """One layer's keys and values with space for more tokens, so that appending copies nothing."""

    def __init__(self, parts: Sequence[tuple[Tensor, Tensor]], max_new_tokens: int) -> None:
        """Copy [N, G, S, D] keys and values of several batches, aligned right."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._length = max(keys.shape[2] for keys, _ in parts)
        self._buffers = [_aligned(tensors, self._length, max_new_tokens) for tensors in zip(*parts, strict=True)]
        self.is_initialized = True
        self._expose()

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append [N, G, S, D]; return all keys and values."""
        start, self._length = self._length, self._length + key_states.shape[2]
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, start : self._length] = states
        return self._expose()

    def batch_select_indices(self, indices: Tensor) -> None:
        """Select rows by index."""
        self._buffers = [buffer[indices] for buffer in self._buffers]
        self._expose()

    def _expose(self) -> tuple[Tensor, Tensor]:
        """Set the base class's ``keys`` and ``values`` to the filled part of the buffers."""
        keys, values = (buffer[:, :, : self._length] for buffer in self._buffers)
        self.keys, self.values = keys, values
        return keys, values


def _aligned(tensors: Sequence[Tensor], width: int, max_new_tokens: int) -> Tensor:
    """Stack batches [N, G, S, D] of several S, padded left to ``width``, with ``max_new_tokens`` free on the right."""
    rows, (_, groups, _, size) = sum(map(len, tensors)), tensors[0].shape
    buffer = tensors[0].new_zeros(rows, groups, width + max_new_tokens, size)
    first = 0
    for tensor in tensors:
        buffer[first : first + len(tensor), :, width - tensor.shape[2] : width] = tensor
        first += len(tensor)
    return buffer


class FixedLayer(DynamicLayer):
    """One layer's keys and values, written at a column that is a tensor, and attended to up to ``visible``."""

    def __init__(self, keys: Tensor, values: Tensor, column: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.buffers = keys, values
        self.visible = keys.shape[2]
        self._column = column
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write [R, G, 1, D]; return what is visible."""
        keys, values = self.buffers
        keys.index_copy_(2, self._column, key_states)
        values.index_copy_(2, self._column, value_states)
        return keys[:, :, : self.visible], values[:, :, : self.visible]


def cache_of(layers: Sequence[FixedLayer]) -> Cache:
    """Return a cache of these layers."""
    return Cache(list(layers))


def read_chunk(
    lm: LanguageModel, chunk: Chunk, prefix_inputs: dict[str, Any]
) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """Return the keys and values [N, G, S, D] of a chunk's suffixes, by layer, and the logits at their ends [N, V]."""
    cache = DynamicCache()
    logits = lm.run(chunk, 1, cache, prefix_inputs).logits[:, -1]
    layers: list[Any] = cache.layers
    return [(layer.keys, layer.values) for layer in layers], logits


class _Uncached:
    """A decoding state of a model whose cache cannot select sequences: every step reads all tokens again."""

    def __init__(self, lm: LanguageModel, chunk: Chunk) -> None:
        self._lm, self._sequences = lm, chunk.suffixes
        self._read()

    def advance(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """See ``DecodingState``."""
        self._sequences = tuple(
            (*self._sequences[parent], token) for parent, token in zip(parents, tokens, strict=True)
        )
        self._read()

    def _read(self) -> None:
        chunk = Chunk((), tuple(range(len(self._sequences))), self._sequences)
        self.logits: Tensor = self._lm.run(chunk, 1).logits[:, -1]
