"""Packed passes: many sequences in one, without padding. Each token attends to its own sequence and shared prefix.

A packed pass holds, one behind another, a shared prefix, the suffixes of its sequences, the next prefix, and so on.
Everything that a transformer computes token by token runs over real tokens alone. Attention gathers queries and keys
into rows of similar length, with padding behind a row's last token, where causal attention does not look. Short
sequences behind one prefix share a row, under a block mask, so that the prefix's keys are copied at most about once
for as many tokens as it has. No token attends to another sequence or to padding: the results are those of each
sequence in a pass of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from arena.lm.attention.varlen import Span, Spans, lay_out_spans
from arena.lm.chunks import Chunk, Tokens, prefix_groups
from arena.lm.tensors import to_device

GROUP_COST = 16  # tokens that a shared prefix must save to be worth separate rows of attention
ROW_SLACK = 1.25  # length of the longest row over the shortest in one batch of attention


class Pack(NamedTuple):
    """Replies of one packed pass: chunks, each behind its prefix."""

    chunks: tuple[Chunk, ...]

    @property
    def items(self) -> tuple[int, ...]:
        """The indices of the planned rows in this pass."""
        return tuple(i for chunk in self.chunks for i in chunk.items)

    @property
    def texts(self) -> tuple[tuple[Tokens, tuple[Tokens, ...]], ...]:
        """All that is read: prefixes, each with the suffixes behind it."""
        return tuple((chunk.prefix, chunk.suffixes) for chunk in self.chunks)


class Batch(NamedTuple):
    """Rows of similar length that attend in one call, behind prefixes of length P; tensors index the pack."""

    rows: int  # B
    length: int  # S, of the longest
    queries: Tensor  # [B * S]
    keys: Tensor  # [B * (P + S)]
    real: Tensor  # indices of the queries that are not padding  # [tokens]
    mask: Tensor | None  # which keys each query sees; None: causal, without a prefix  # [B, 1, S, P + S]


class Attention(NamedTuple):
    """How a packed pass attends."""

    batches: tuple[Batch, ...]
    order: Tensor  # the index of each packed token in the batches' concatenated real queries  # [tokens]


class Layout(NamedTuple):
    """A packed pass as tensors."""

    ids: Tensor  # [1, tokens]
    positions: Tensor  # [1, tokens]
    attention: Attention | Spans
    scored: Tensor  # indices of the states that predict reply tokens, by row and then by position  # [M]
    targets: Tensor  # those tokens  # [M]
    real: Tensor  # which entries of the padded table of reply tokens are tokens  # [R, T]


class _Row(NamedTuple):
    """A row of attention: a range of the pack, and the prefix before it."""

    start: int
    lengths: tuple[int, ...]  # of the sequences in it, which do not attend to each other
    prefix_start: int
    prefix_length: int

    @property
    def length(self) -> int:
        return sum(self.lengths)


def plan_packs(
    prompts: Sequence[Tokens], replies: Sequence[Tokens], max_tokens: int, units: Sequence[Sequence[int]]
) -> list[Pack]:
    """Return packs that hold every row of every unit, each of at most ``max_tokens`` unless one unit has more.

    Rows of a unit have one prompt, and stay together. A reply's last token is not read: nothing follows it. At
    least one token of a prompt stays behind the prefix, so that its state is computed.
    """
    packs: list[Pack] = []
    chunks: list[Chunk] = []
    used = 0
    for prefix, blocks in _blocks(prompts, units):
        rows: list[int] = []
        used += len(prefix)
        for block in blocks:
            size = sum(len(prompts[i]) - len(prefix) + len(replies[i]) - 1 for i in block)
            if used + size > max_tokens and (chunks or rows):
                packs.append(Pack((*chunks, *_chunk(prefix, rows, prompts, replies))))
                chunks, rows, used = [], [], len(prefix)
            rows += block
            used += size
        chunks += _chunk(prefix, rows, prompts, replies)
    return [*packs, Pack(tuple(chunks))] if chunks else packs


def _blocks(prompts: Sequence[Tokens], units: Sequence[Sequence[int]]) -> Iterator[tuple[Tokens, list[list[int]]]]:
    """Yield prefixes with the units behind each. Equal prompts keep their order, so a unit's rows stay adjacent."""
    rows = [(number, row) for number, unit in enumerate(units) for row in unit]
    for prefix, indices in prefix_groups([prompts[row] for _, row in rows], GROUP_COST):
        members = [rows[index] for index in indices]
        yield prefix, [[row for _, row in unit] for _, unit in groupby(members, key=itemgetter(0))]


def _chunk(
    prefix: Tokens, rows: Sequence[int], prompts: Sequence[Tokens], replies: Sequence[Tokens]
) -> tuple[Chunk, ...]:
    """Return rows as a chunk, or nothing if there are none."""
    suffixes = tuple((prompts[i] + replies[i][:-1])[len(prefix) :] for i in rows)
    return (Chunk(prefix, tuple(rows), suffixes),) if rows else ()


def join_chunks(chunks: Sequence[Chunk], max_tokens: int) -> list[Pack]:
    """Return packs that hold the chunks, each of at most ``max_tokens`` unless one chunk has more."""
    packs: list[list[Chunk]] = []
    used = max_tokens
    for chunk in chunks:
        size = len(chunk.prefix) + sum(map(len, chunk.suffixes))
        if used + size > max_tokens:
            packs.append([])
            used = 0
        packs[-1].append(chunk)
        used += size
    return [Pack(tuple(pack)) for pack in packs]


def lay_out_ends(pack: Pack, device: torch.device, *, by_spans: bool = False) -> Layout:
    """Return a pack's tensors, where the state at every suffix's last token is scored, and there are no targets."""
    ids, positions, rows, ends = _read(pack)
    nothing = torch.empty(0, dtype=torch.long, device=device)
    return Layout(
        to_device([ids], device),
        to_device([positions], device),
        _spans(rows, device) if by_spans else _attention(rows, device),
        to_device(ends, device) - 1,
        nothing,
        nothing.bool(),
    )


def packed_inputs(layout: Layout, scored: Tensor) -> dict[str, Any]:
    """Return a model's arguments for a packed pass that computes the logits of some states."""
    return {
        "input_ids": layout.ids,
        "position_ids": layout.positions,
        "attention_mask": layout.ids.new_empty(1, 1, 1, 1),  # placeholder: otherwise one of [tokens, tokens] is built
        "packed": layout.attention,
        "use_cache": False,
        "logits_to_keep": scored,
    }


def _read(pack: Pack) -> tuple[list[int], list[int], list[_Row], list[int]]:
    """Return a pack's tokens, their positions, the rows of attention, and where each suffix ends."""
    ids: list[int] = []
    positions: list[int] = []
    rows: list[_Row] = []
    ends: list[int] = []
    for chunk in pack.chunks:
        rows += _rows_of(chunk, len(ids))
        ids += chunk.prefix
        positions += range(len(chunk.prefix))
        for suffix in chunk.suffixes:
            ids += suffix
            positions += range(len(chunk.prefix), len(chunk.prefix) + len(suffix))
            ends.append(len(ids))
    return ids, positions, rows, ends


def lay_out(pack: Pack, replies: Sequence[Tokens], device: torch.device, *, by_spans: bool = False) -> Layout:
    """Return a pack's tensors; ``replies`` are those given to ``plan_packs``."""
    ids, positions, rows, ends = _read(pack)
    pack_replies = [replies[i] for i in pack.items]
    scored = [k for reply, end in zip(pack_replies, ends, strict=True) for k in range(end - len(reply), end)]
    lengths = to_device([len(reply) for reply in pack_replies], device)
    return Layout(
        to_device([ids], device),
        to_device([positions], device),
        _spans(rows, device) if by_spans else _attention(rows, device),
        to_device(scored, device),
        to_device([token for reply in pack_replies for token in reply], device),
        torch.arange(max(map(len, pack_replies)), device=device)[None] < lengths[:, None],
    )


def _rows_of(chunk: Chunk, start: int) -> list[_Row]:
    """Return the rows of attention of a chunk that begins at index ``start``."""
    prefix = len(chunk.prefix)
    if not prefix:
        starts = accumulate(map(len, chunk.suffixes), initial=start)
        return [_Row(first, (len(suffix),), start, 0) for first, suffix in zip(starts, chunk.suffixes, strict=False)]
    rows = [_Row(start, (prefix,), start, 0)]
    row_start = start + prefix
    lengths: list[int] = []
    for suffix in chunk.suffixes:
        if lengths and sum(lengths) + len(suffix) > prefix:
            rows.append(_Row(row_start, tuple(lengths), start, prefix))
            row_start, lengths = row_start + sum(lengths), []
        lengths.append(len(suffix))
    return [*rows, _Row(row_start, tuple(lengths), start, prefix)]


def _spans(rows: Sequence[_Row], device: torch.device) -> Spans:
    """Return the sequences of rows of attention."""
    spans = [
        Span(start, length, row.prefix_start, row.prefix_length)
        for row in rows
        for start, length in zip(accumulate(row.lengths, initial=row.start), row.lengths, strict=False)
    ]
    return lay_out_spans(spans, device)


def _attention(rows: Sequence[_Row], device: torch.device) -> Attention:
    """Batch rows of equal prefix length and similar length."""
    ordered = sorted(rows, key=lambda row: (row.prefix_length, row.length))
    batches: list[list[_Row]] = []
    for row in ordered:
        if (
            batches
            and batches[-1][0].prefix_length == row.prefix_length
            and row.length <= ROW_SLACK * batches[-1][0].length
        ):
            batches[-1].append(row)
        else:
            batches.append([row])
    order = torch.cat([torch.arange(row.start, row.start + row.length) for row in ordered])
    return Attention(tuple(_batch(batch, device) for batch in batches), to_device(order.argsort(), device))


def _batch(rows: Sequence[_Row], device: torch.device) -> Batch:
    length, prefix = rows[-1].length, rows[0].prefix_length
    starts, lengths, prefix_starts = (
        torch.tensor([getattr(row, name) for row in rows])[:, None] for name in ("start", "length", "prefix_start")
    )
    columns = torch.arange(length)[None]
    real = columns < lengths
    queries = torch.where(real, starts + columns, starts)
    keys = torch.cat([prefix_starts + torch.arange(prefix)[None], queries], 1)
    return Batch(
        len(rows),
        length,
        to_device(queries.flatten(), device),
        to_device(keys.flatten(), device),
        to_device(real.flatten().nonzero()[:, 0], device),
        to_device(_mask(rows, length), device) if prefix else None,
    )


def _mask(rows: Sequence[_Row], length: int) -> Tensor:
    """Return which keys a query sees: the whole prefix, and its own sequence up to itself.  # [B, 1, S, P + S]"""
    sequences = torch.full((len(rows), length), -1)  # each token's sequence
    for numbers, row in zip(sequences, rows, strict=True):
        numbers[: row.length] = torch.arange(len(row.lengths)).repeat_interleave(torch.tensor(row.lengths))
    same = (sequences[:, :, None] == sequences[:, None, :]).tril()  # [B, S, S]
    return torch.cat([same.new_ones(len(rows), length, rows[0].prefix_length), same], 2)[:, None]


def attend(query: Tensor, key: Tensor, value: Tensor, attention: Attention, scale: float) -> Tensor:
    """Attend within each sequence of a packed pass.  # [1, H, N, D], [1, G, N, D] twice -> [1, N, H, D]"""
    heads, groups, width = query.shape[1], key.shape[1], query.shape[3]
    flat_query, flat_key, flat_value = (part[0].transpose(0, 1).flatten(1) for part in (query, key, value))
    mixed = []
    for batch in attention.batches:
        batch_key, batch_value = (_gather(part, batch.keys, batch.rows, groups) for part in (flat_key, flat_value))
        attended = scaled_dot_product_attention(
            _gather(flat_query, batch.queries, batch.rows, heads),
            batch_key,
            batch_value,
            attn_mask=batch.mask,
            is_causal=batch.mask is None,
            scale=scale,
            enable_gqa=heads != groups,
        )
        mixed.append(attended.transpose(1, 2).reshape(-1, heads * width).index_select(0, batch.real))
    return torch.cat(mixed).index_select(0, attention.order).view(1, -1, heads, width)


def _gather(flat: Tensor, indices: Tensor, rows: int, heads: int) -> Tensor:
    """Gather tokens into rows.  # [N, heads * D] -> [rows, heads, S, D]"""
    return flat.index_select(0, indices).view(rows, len(indices) // rows, heads, -1).transpose(1, 2)
