"""Decodes free replies on a GPU without waiting for each token: steps are replayed, and ends are checked rarely.

Each request is a row of its own from its first token. On a CPU it takes less to compute what requests share but once
(``arena.lm.decoding.decode``), so there this runs only where ``LanguageModel.decodes_on_device`` says so; it draws the
same tokens, up to rounding.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from arena.lm.chunks import Chunk, Tokens, plan_chunks
from arena.lm.decoding.graphs import GraphPool
from arena.lm.decoding.kv_cache import read_chunk
from arena.lm.decoding.mixed_adapters import Mixture, Runs
from arena.lm.decoding.static_batch import Sampling, Sizes, StaticBatch, rounded, rounded_rows, rows_within
from arena.lm.language_model import LanguageModel
from arena.lm.tensors import heads, to_device

CHECKED = 16  # steps, after which it waits to see which rows have ended
SHARE = 0.4  # of the memory that is free at first, for keys and values
BYTES_ON_CPU = 1 << 30
KEPT_ASLEEP = 1 / 16  # of a GPU's memory

Reply = tuple[Tokens, tuple[float, ...]]


class Batches:
    """The batches of one model that are kept with their captured steps, because the next replies need them again."""

    def __init__(self, lm: LanguageModel) -> None:
        self._device = lm.device
        self._layers = [heads(lm.model.config)[1:]] * lm.model.config.num_hidden_layers
        self._dtype = next(lm.model.parameters()).dtype
        self._most = BYTES_ON_CPU
        if self._device.type == "cuda":
            self._most = int(SHARE * torch.cuda.mem_get_info(self._device)[0])
        self.pool = GraphPool(self._device)
        self._kept: dict[Sizes, StaticBatch] = {}  # least recently used first

    @property
    def token_bytes(self) -> int:
        """Bytes of a token's keys and values."""
        return sum(2 * heads * width * self._dtype.itemsize for heads, width in self._layers)

    def most_rows(self, columns: int) -> int:
        """Return how many rows of this many columns a batch may have."""
        return rows_within(self._most // (columns * self.token_bytes))

    def get(self, lm: LanguageModel, sizes: Sizes) -> StaticBatch:
        """Return a batch of these sizes, whose content is of no use any more."""
        batch = self._kept.pop(sizes, None)
        if batch is None:
            self._shrink(self._most - sizes.rows * sizes.columns * self.token_bytes)
            batch = StaticBatch(lm, sizes, self._layers, self._dtype)
        self._kept[sizes] = batch
        return batch

    def sleep(self) -> None:
        """Give back most of the memory, because the learner needs it."""
        if self._device.type == "cuda":
            self._shrink(int(KEPT_ASLEEP * torch.cuda.mem_get_info(self._device)[1]))

    def _shrink(self, most: int) -> None:
        while self._kept and sum(batch.bytes for batch in self._kept.values()) > most:
            del self._kept[next(iter(self._kept))]


def batches_of(lm: LanguageModel) -> Batches:
    """Return the batches of a model's weights, which all views on them share."""
    owner = lm if lm.adapters is None else lm.adapters.base
    if not isinstance(owner.batches, Batches):
        owner.batches = Batches(owner)
    return owner.batches


class _Row(NamedTuple):
    """A request, and where its prompt is."""

    request: int
    lm: LanguageModel
    chunk: Chunk
    state: int  # in the chunk


@torch.inference_mode()
def decode_on_device(
    lms: Sequence[LanguageModel],
    prompts: Sequence[Tokens],
    rngs: Sequence[random.Random],
    sampling: Sampling,
    max_tokens: int,
    max_batch_tokens: int,
) -> list[Reply]:
    """Return a reply with its log-probs for each prompt, by its model, as ``arena.lm.decoding.decode.generate``.

    The models are views on the same weights, the generators different objects.
    """
    replies: dict[int, Reply] = {}
    for rows, prefix in _groups(lms, prompts, max_batch_tokens):
        width = max(len(row.chunk.prefix) - len(prefix) + len(row.chunk.suffixes[row.state]) for row in rows)
        batches = batches_of(rows[0].lm)
        most = batches.most_rows(rounded(width + max_tokens - 1))
        for first in range(0, len(rows), most):
            some = rows[first : first + most]
            batch = batches.get(some[0].lm, Sizes.holding(len(some), len(prefix), width + max_tokens - 1))
            _read(batch, some, prefix, width)
            _set_points(batch, [rngs[row.request] for row in some], max_tokens)
            replies |= _decode(batches, batch, some, sampling, max_tokens)
    for i, rng in enumerate(rngs):
        for _ in replies[i][0]:
            rng.random()
        _count(lms[i], len(prompts[i]), len(replies[i][0]) - 1)
    return [replies[i] for i in range(len(prompts))]


def _groups(
    lms: Sequence[LanguageModel], prompts: Sequence[Tokens], max_batch_tokens: int
) -> Iterator[tuple[list[_Row], Tokens]]:
    """Yield rows that are decoded together, with the prefix that they share; rows of several views share none.

    A group behind a prefix of its own must save as many tokens as reading all weights takes.
    """
    rows: list[_Row] = []
    for lm in dict.fromkeys(lms):
        requests_of: dict[Tokens, list[int]] = {}
        for i, prompt in enumerate(prompts):
            if lms[i] is lm:
                requests_of.setdefault(prompt, []).append(i)
        distinct, weights = list(requests_of), sum(p.numel() * p.element_size() for p in lm.model.parameters())
        cost = weights // batches_of(lm).token_bytes
        nothing = [((),)] * len(distinct)
        chunks = plan_chunks(distinct, nothing, max_batch_tokens, share=lm.shares_prefix, cost=cost)
        rows += [
            _Row(request, lm, chunk, state)
            for chunk in chunks
            for state, item in enumerate(chunk.items)
            for request in requests_of[distinct[item]]
        ]
    if len(set(lms)) > 1:
        yield rows, ()
        return
    for prefix, group in groupby(rows, key=lambda row: row.chunk.prefix):
        yield list(group), prefix


def _read(batch: StaticBatch, rows: Sequence[_Row], shared: Tokens, width: int) -> None:
    """Read the prompts of rows into a batch; several may have one prompt. Prefixes that are not shared are copied."""
    prefixes: dict[tuple[str, Tokens], dict[str, Any]] = {}
    for number, ((lm, chunk), members) in enumerate(groupby(enumerate(rows), key=lambda row: row[1][1:3])):
        key = lm.view, chunk.prefix
        if key not in prefixes:
            prefixes[key] = lm.prefix_inputs(chunk.prefix)
        before = prefixes[key].get("shared_prefix", ())
        if not number:
            batch.begin(before if shared else (), width)
        of_chunk = list(members)
        read, logits = read_chunk(lm, chunk, prefixes[key])
        states = to_device([row.state for _, row in of_chunk], lm.device)
        lengths = to_device([len(chunk.suffixes[row.state]) for _, row in of_chunk], lm.device)
        layers = [(keys.index_select(0, states), values.index_select(0, states)) for keys, values in read]
        if before and not shared:
            layers = [
                (_behind(keys, own_keys, lengths), _behind(values, own_values, lengths))
                for (keys, values), (own_keys, own_values) in zip(before, layers, strict=True)
            ]
        indices = to_device([index for index, _ in of_chunk], lm.device)
        copied = len(chunk.prefix) - len(shared)
        batch.put(indices, lengths + copied, layers, logits.index_select(0, states), len(shared))


def _behind(prefix: Tensor, own: Tensor, lengths: Tensor) -> Tensor:
    """Return [N, G, P + S, D]: a prefix [1, G, P, D] just before each row [N, G, S, D] of ``lengths`` [N] tokens."""
    joined, columns = torch.cat([prefix.expand(len(own), -1, -1, -1), own], 2), prefix.shape[2] + own.shape[2]
    places = torch.arange(columns, device=own.device)
    pads = own.shape[2] - lengths[:, None]
    moved = torch.where(places < pads + prefix.shape[2], (places - pads).clamp(min=0), places)  # [N, P + S]
    return joined.gather(2, moved[:, None, :, None].expand_as(joined))


def _set_points(batch: StaticBatch, rngs: Sequence[random.Random], number: int) -> None:
    """Give rows the numbers that their generators would draw, and leave the generators as they were."""
    points = []
    for rng in rngs:
        state = rng.getstate()
        points.append([rng.random() for _ in range(number)])
        rng.setstate(state)
    batch.points[: len(rngs), :number] = to_device(points, batch.device, torch.float64)


def _decode(
    batches: Batches, batch: StaticBatch, rows: Sequence[_Row], sampling: Sampling, max_tokens: int
) -> Iterator[tuple[int, Reply]]:
    """Yield the reply of each request; ``rows`` are the batch's first."""
    runs = _runs(batch, rows)
    for steps in range(1, max_tokens + 1):
        if steps == max_tokens:
            batch.sample(sampling)
            break
        batch.run(runs, sampling, batches.pool, steps - 1)
        if steps % CHECKED == 0:
            left = [row for row, done in enumerate(batch.done[: len(rows)].tolist()) if not done]
            if not left:
                break
            if (fewer := rounded_rows(len(left))) <= batch.sizes.rows // 2:
                ended = set(range(len(rows))).difference(left)
                yield from _written(batch, rows, sorted(ended), steps, sampling.end)
                smaller = batches.get(rows[0].lm, batch.sizes._replace(rows=fewer))
                smaller.take(batch, to_device(left, batch.device))
                batch, rows = smaller, [rows[row] for row in left]
                runs = _runs(batch, rows)
    yield from _written(batch, rows, range(len(rows)), steps, sampling.end)


def _runs(batch: StaticBatch, rows: Sequence[_Row]) -> Runs:
    """Return what runs the passes of a batch: the model of its rows, or the adapters of several."""
    if len({row.lm for row in rows}) == 1:
        return rows[0].lm
    names = tuple(sorted({row.lm.view for row in rows} - {""}))
    adapters: Any = rows[0].lm.adapters
    shares = [[float(row.lm.view == name) for name in names] for row in rows]
    static = batch.shares_of(len(names))
    static[: len(rows)] = to_device(shares, batch.device)
    return Mixture(adapters, names, static)


def _written(
    batch: StaticBatch, rows: Sequence[_Row], wanted: Sequence[int], steps: int, end: int
) -> Iterator[tuple[int, Reply]]:
    """Yield what was written in some rows, up to their ends."""
    tokens, logprobs = batch.written(steps)
    for row in wanted:
        length = tokens[row].index(end) + 1 if end in tokens[row] else steps
        yield rows[row].request, (tuple(tokens[row][:length]), tuple(logprobs[row][:length]))


def _count(lm: LanguageModel, prompt: int, read: int) -> None:
    """Count the tokens of a reply that were read again: all but its last."""
    lm.cost.add(read, read * prompt + read * (read + 1) / 2, read)
