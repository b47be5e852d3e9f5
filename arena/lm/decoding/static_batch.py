"""Sequences that are decoded in fixed tensors, so that a step can be replayed as a CUDA graph.

A step draws the next token of every row and reads it, on the device: positions, lengths and what may be attended to are
tensors too, and nothing waits for a token. Its shapes are those of the batch, rounded up to ``Sizes``, so that few
different steps are captured. Rows are padded on the left, and rows beyond the sequences are computed in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from arena.lm.decoding.graphs import GraphPool
from arena.lm.decoding.kv_cache import FixedLayer, cache_of
from arena.lm.decoding.mixed_adapters import Runs
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import truncate
from roles.truncation import Truncation

COLUMNS = 128  # tokens of a row, in multiples of which keys and values are held and attended to
LARGE = 256  # rows, up to which a batch has a power of two of them, and beyond which a multiple of half as many

KeysValues = Sequence[tuple[Tensor, Tensor]]  # by layer


class Sizes(NamedTuple):
    """The shape of a batch's tensors."""

    rows: int  # R
    prefix: int  # P
    columns: int  # C, of which a row may have as many tokens, and may write as many

    @classmethod
    def holding(cls, rows: int, prefix: int, columns: int) -> Sizes:
        """Return the least sizes that hold this many."""
        return cls(rounded_rows(rows), rounded(prefix), rounded(columns))


def rounded(tokens: int) -> int:
    """Return the next multiple of ``COLUMNS``."""
    return -(-tokens // COLUMNS) * COLUMNS


def rounded_rows(rows: int) -> int:
    """Return the next power of two, at least 8, or, if that were more than ``LARGE``, the next multiple of its half."""
    return max(8, 1 << (rows - 1).bit_length()) if rows <= LARGE else -(-rows // (LARGE // 2)) * (LARGE // 2)


def rows_within(rows: int) -> int:
    """Return the greatest number of rows, at least 8, that is rounded up to itself and is not more than ``rows``."""
    return rows // (LARGE // 2) * (LARGE // 2) if rows > LARGE else max(8, 1 << (max(rows, 1).bit_length() - 1))


class Sampling(NamedTuple):
    """How tokens are drawn."""

    temperature: float
    truncation: Truncation
    end: int


class StaticBatch:
    """The tensors of one batch. Fill it by ``begin`` and ``put``, then ``run`` steps, then read ``written``."""

    def __init__(self, lm: LanguageModel, sizes: Sizes, layers: Sequence[tuple[int, int]], dtype: torch.dtype) -> None:
        """Allocate; ``layers`` has the heads G and width D of each layer's keys and values."""
        self.sizes = sizes
        rows, prefix, columns = sizes
        device = self.device = lm.device
        self.logits = torch.zeros(rows, lm.model.config.vocab_size, dtype=dtype, device=device)
        self.ids = torch.zeros(rows, dtype=torch.long, device=device)
        self.positions = torch.zeros(rows, dtype=torch.long, device=device)
        self.column = torch.zeros(1, dtype=torch.long, device=device)  # of the token that is read next
        self.step = torch.zeros(1, dtype=torch.long, device=device)
        self.mask = torch.zeros(rows, 1, 1, prefix + columns, dtype=torch.bool, device=device)
        self.done = torch.ones(rows, dtype=torch.bool, device=device)
        self.points = torch.zeros(rows, columns, dtype=torch.float64, device=device)
        self.tokens = torch.zeros(rows, columns, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(rows, columns, device=device)
        self.prefix = [_zeros(dtype, device, 1, heads, prefix, width) for heads, width in layers] if prefix else []
        self.layers = [
            FixedLayer(*_zeros(dtype, device, rows, heads, columns, width), self.column) for heads, width in layers
        ]
        self._width = 0  # columns of the rows before the first step
        self._shares: dict[int, Tensor] = {}
        self._replays: dict[object, Callable[[], None]] = {}

    @property
    def bytes(self) -> int:
        """What the tensors take."""
        tensors = [*vars(self).values(), *(t for pair in (*self.prefix, *self._buffers) for t in pair)]
        return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))

    @property
    def _buffers(self) -> list[tuple[Tensor, Tensor]]:
        return [layer.buffers for layer in self.layers]

    def begin(self, prefix: KeysValues, width: int) -> None:
        """Forget all rows; the next ones have ``width`` columns behind a prefix of keys and values [1, G, P, D]."""
        self._width = width
        self.done.fill_(True)
        self.mask.zero_()
        self.column.fill_(width)
        self.step.zero_()
        if prefix:
            length = prefix[0][0].shape[2]
            self.mask[:, :, :, :length] = True
            for static, given in zip(self.prefix, prefix, strict=True):
                for target, source in zip(static, given, strict=True):
                    target[:, :, :length] = source

    def put(self, rows: Tensor, lengths: Tensor, cache: KeysValues, logits: Tensor, start: int) -> None:
        """Fill rows [N] with sequences of ``lengths`` [N] tokens that end before ``column``, behind ``start`` others.

        Keys and values are [N, G, S, D], aligned right, logits [N, V].
        """
        columns = torch.arange(self.sizes.columns, device=self.device)
        held = (columns < self.column) & (columns >= self.column - lengths[:, None])  # [N, C]
        self.mask[:, 0, 0, self.sizes.prefix :].index_copy_(0, rows, held)
        self.positions.index_copy_(0, rows, lengths + start)
        self.done.index_fill_(0, rows, False)
        self.logits.index_copy_(0, rows, logits)
        for layer, given in zip(self.layers, cache, strict=True):
            for buffer, states in zip(layer.buffers, given, strict=True):
                buffer[:, :, self._width - states.shape[2] : self._width].index_copy_(0, rows, states)

    def take(self, other: StaticBatch, rows: Tensor) -> None:
        """Fill the first rows with rows [N] of a larger batch of equal prefix and columns, where it stands."""
        number, self._width = len(rows), other._width
        self.done.fill_(True)
        for name in ("logits", "positions", "mask", "done", "points", "tokens", "logprobs"):
            getattr(self, name)[:number] = getattr(other, name).index_select(0, rows)
        for name in ("column", "step"):
            getattr(self, name).copy_(getattr(other, name))
        for mine, others in zip(self.prefix, other.prefix, strict=True):
            for target, source in zip(mine, others, strict=True):
                target.copy_(source)
        for mine, others in zip(self._buffers, other._buffers, strict=True):
            for target, source in zip(mine, others, strict=True):
                target[:number] = source.index_select(0, rows)

    def shares_of(self, number: int) -> Tensor:
        """Return the tensor in which rows say which of this many adapters they have.  # [R, K]"""
        if number not in self._shares:
            self._shares[number] = torch.zeros(self.sizes.rows, number, device=self.device)
        return self._shares[number]

    def run(self, lm: Runs, sampling: Sampling, pool: GraphPool, steps: int) -> None:
        """Draw and read a token of each row, after this many steps."""
        visible = min(rounded(self._width + steps + 1), self.sizes.columns)
        if not pool.captures:
            self.advance(lm, sampling, visible)
            return
        key = lm.view, sampling, visible
        if key not in self._replays:
            self._replays[key] = pool.capture(lambda: self.advance(lm, sampling, visible), self.changing)
        self._replays[key]()

    @property
    def changing(self) -> tuple[Tensor, ...]:
        """The tensors that a step both reads and writes, but for keys and values, of which it reads what it wrote."""
        return self.logits, self.ids, self.positions, self.column, self.step, self.mask, self.done

    def advance(self, lm: Runs, sampling: Sampling, visible: int) -> None:
        """Draw the next token of each row and read it, attending to the first ``visible`` columns."""
        self.sample(sampling)
        prefix = self.sizes.prefix
        self.mask.index_fill_(3, self.column + prefix, True)
        for layer in self.layers:
            layer.visible = visible
        output = lm.forward(
            input_ids=self.ids[:, None],
            attention_mask=self.mask[..., : prefix + visible],
            position_ids=self.positions[:, None],
            past_key_values=cache_of(self.layers),
            use_cache=True,
            **({"shared_prefix": self.prefix} if prefix else {}),
        )
        self.logits.copy_(output.logits[:, -1])
        for counter in (self.positions, self.column, self.step):
            counter.add_(1)

    def sample(self, sampling: Sampling) -> None:
        """Draw the next token of each row, and note it with its log-prob."""
        logits = truncate(self.logits.float() / sampling.temperature, sampling.truncation, waits=False)
        logprobs = logits.log_softmax(-1)  # [R, V]
        cumulated = logprobs.exp().cumsum(-1, dtype=torch.float64)
        points = self.points.index_select(1, self.step) * cumulated[:, -1:]  # [R, 1]
        drawn = torch.searchsorted(cumulated, points, right=True).clamp(max=logits.shape[1] - 1)
        self.tokens.index_copy_(1, self.step, drawn)
        self.logprobs.index_copy_(1, self.step, logprobs.gather(1, drawn))
        self.ids.copy_(drawn[:, 0])
        self.done.logical_or_(self.ids == sampling.end)

    def written(self, steps: int) -> tuple[list[list[int]], list[list[float]]]:
        """Return the tokens and log-probs that this many steps wrote in each row, past ends too; it waits for them."""
        return self.tokens[:, :steps].tolist(), self.logprobs[:, :steps].tolist()


def _zeros(dtype: torch.dtype, device: torch.device, *shape: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(shape, dtype=dtype, device=device), torch.zeros(shape, dtype=dtype, device=device)
