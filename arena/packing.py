"""Many sequences in one, without padding: each token attends to its own sequence and the prefix that this shares.

A packed pass holds, one behind another, a shared prefix, what follows it in each of its sequences, the next
prefix, and so on. Everything that a transformer computes token by token runs over real tokens alone. Attention
gathers queries and keys into rows of similar length, and its padding stands behind a row's last token, where causal
attention does not look. Short sequences behind one prefix share a row, under a mask of blocks, so that the prefix's
keys are copied no oftener than about once for as many tokens as it has. Nothing attends to another sequence or to
padding: the numbers are those of each sequence by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from arena.chunks import Chunk, Tokens, prefix_groups

GROUP_COST = 16  # tokens that a prefix must save to be worth its own rows of attention
ROW_SLACK = 1.25  # longest row over shortest in one batch of attention


class Pack(NamedTuple):
    """Replies that run in one pass: chunks without padding, each behind its own prefix."""

    chunks: tuple[Chunk, ...]

    @property
    def items(self) -> tuple[int, ...]:
        """Which of the planned rows these are."""
        return tuple(i for chunk in self.chunks for i in chunk.items)


class Batch(NamedTuple):
    """Rows of similar length that attend in one call, behind prefixes of one length P; indices are packed places."""

    rows: int  # B
    length: int  # S, of the longest
    queries: Tensor  # [B * S]
    keys: Tensor  # [B * (P + S)]
    real: Tensor  # which of the queries are tokens of their own and no padding  # [tokens]
    mask: Tensor | None  # which keys each query sees; None: causal, without a prefix  # [B, 1, S, P + S]


class Attention(NamedTuple):
    """How a packed pass attends."""

    batches: tuple[Batch, ...]
    places: Tensor  # of each packed token in the batches' real queries, one batch behind another  # [tokens]


class Layout(NamedTuple):
    """A packed pass as tensors."""

    ids: Tensor  # [1, tokens]
    positions: Tensor  # [1, tokens]
    attention: Attention
    scored: Tensor  # places whose states predict a reply's token, by row and then in order  # [M]
    targets: Tensor  # those tokens  # [M]
    real: Tensor  # which places of the rows' table of tokens there are  # [R, T]


class _Row(NamedTuple):
    """Tokens that attend in one row: a stretch of the pack, and the prefix before it."""

    start: int
    pieces: tuple[int, ...]  # lengths of the sequences in it, which do not see each other
    before: int  # where the prefix starts
    prefix: int  # its length

    @property
    def length(self) -> int:
        return sum(self.pieces)


def plan_packs(
    prompts: Sequence[Tokens], replies: Sequence[Tokens], budget: int, units: Sequence[Sequence[int]]
) -> list[Pack]:
    """Return packs that hold every row of every unit, each of at most ``budget`` tokens unless a unit alone has more.

    Rows of a unit have one prompt, and stay together. A reply's last token is not read: nothing follows it. At
    least one token of a prompt stays behind the prefix, so that its state comes out.
    """
    packs: list[Pack] = []
    chunks: list[Chunk] = []
    used = 0
    for prefix, blocks in _blocks(prompts, units):
        held: list[int] = []
        used += len(prefix)
        for block in blocks:
            size = sum(len(prompts[i]) - len(prefix) + len(replies[i]) - 1 for i in block)
            if used + size > budget and (chunks or held):
                packs.append(Pack((*chunks, *_chunk(prefix, held, prompts, replies))))
                chunks, held, used = [], [], len(prefix)
            held += block
            used += size
        chunks += _chunk(prefix, held, prompts, replies)
    return [*packs, Pack(tuple(chunks))] if chunks else packs


def _blocks(prompts: Sequence[Tokens], units: Sequence[Sequence[int]]) -> Iterator[tuple[Tokens, list[list[int]]]]:
    """Yield prefixes with the units behind each. Equal prompts keep their order, so a unit's rows stay side by side."""
    rows = [(number, row) for number, unit in enumerate(units) for row in unit]
    for prefix, places in prefix_groups([prompts[row] for _, row in rows], GROUP_COST):
        members = [rows[place] for place in places]
        yield prefix, [[row for _, row in own] for _, own in groupby(members, key=itemgetter(0))]


def _chunk(
    prefix: Tokens, rows: Sequence[int], prompts: Sequence[Tokens], replies: Sequence[Tokens]
) -> tuple[Chunk, ...]:
    """Return some rows as a chunk, if there are any."""
    suffixes = tuple((prompts[i] + replies[i][:-1])[len(prefix) :] for i in rows)
    return (Chunk(prefix, tuple(rows), suffixes),) if rows else ()


def lay_out(pack: Pack, replies: Sequence[Tokens], device: torch.device) -> Layout:
    """Return a pack's tensors; ``replies`` are those of the whole plan."""
    ids: list[int] = []
    positions: list[int] = []
    rows: list[_Row] = []
    scored: list[int] = []
    for chunk in pack.chunks:
        rows += _rows_of(chunk, len(ids))
        ids += chunk.prefix
        positions += range(len(chunk.prefix))
        for item, suffix in zip(chunk.items, chunk.suffixes, strict=True):
            ids += suffix
            positions += range(len(chunk.prefix), len(chunk.prefix) + len(suffix))
            scored += range(len(ids) - len(replies[item]), len(ids))
    own = [replies[i] for i in pack.items]
    lengths = torch.tensor([len(reply) for reply in own], device=device)
    return Layout(
        torch.tensor([ids], device=device),
        torch.tensor([positions], device=device),
        _attention(rows, device),
        torch.tensor(scored, device=device),
        torch.tensor([token for reply in own for token in reply], device=device),
        torch.arange(max(map(len, own)), device=device)[None] < lengths[:, None],
    )


def _rows_of(chunk: Chunk, start: int) -> list[_Row]:
    """Return the rows in which a chunk that begins at ``start`` attends."""
    prefix = len(chunk.prefix)
    if not prefix:
        ends = accumulate(map(len, chunk.suffixes), initial=start)
        return [_Row(place, (len(suffix),), start, 0) for place, suffix in zip(ends, chunk.suffixes, strict=False)]
    rows = [_Row(start, (prefix,), start, 0)]
    place = start + prefix
    pieces: list[int] = []
    for suffix in chunk.suffixes:
        if pieces and sum(pieces) + len(suffix) > prefix:
            rows.append(_Row(place, tuple(pieces), start, prefix))
            place, pieces = place + sum(pieces), []
        pieces.append(len(suffix))
    return [*rows, _Row(place, tuple(pieces), start, prefix)]


def _attention(rows: Sequence[_Row], device: torch.device) -> Attention:
    """Batch rows of one prefix length and similar lengths."""
    ordered = sorted(rows, key=lambda row: (row.prefix, row.length))
    runs: list[list[_Row]] = []
    for row in ordered:
        if runs and runs[-1][0].prefix == row.prefix and row.length <= ROW_SLACK * runs[-1][0].length:
            runs[-1].append(row)
        else:
            runs.append([row])
    order = torch.cat([torch.arange(row.start, row.start + row.length) for row in ordered])
    return Attention(tuple(_batch(run, device) for run in runs), order.argsort().to(device))


def _batch(run: Sequence[_Row], device: torch.device) -> Batch:
    length, prefix = run[-1].length, run[0].prefix
    starts, lengths, before = (
        torch.tensor([getattr(row, name) for row in run])[:, None] for name in ("start", "length", "before")
    )
    columns = torch.arange(length)[None]
    real = columns < lengths
    queries = torch.where(real, starts + columns, starts)
    keys = torch.cat([before + torch.arange(prefix)[None], queries], 1)
    return Batch(
        len(run),
        length,
        queries.flatten().to(device),
        keys.flatten().to(device),
        real.flatten().nonzero()[:, 0].to(device),
        _mask(run, length).to(device) if prefix else None,
    )


def _mask(run: Sequence[_Row], length: int) -> Tensor:
    """Return which keys a query sees: all of the prefix, and its own piece's up to itself.  # [B, 1, S, P + S]"""
    pieces = torch.full((len(run), length), -1)
    for own, row in zip(pieces, run, strict=True):
        own[: row.length] = torch.arange(len(row.pieces)).repeat_interleave(torch.tensor(row.pieces))
    same = (pieces[:, :, None] == pieces[:, None, :]).tril()  # [B, S, S]
    return torch.cat([same.new_ones(len(run), length, run[0].prefix), same], 2)[:, None]


def attend(query: Tensor, key: Tensor, value: Tensor, attention: Attention, scale: float) -> Tensor:
    """Attend within each sequence of a packed pass.  # [1, H, N, D], [1, G, N, D] twice -> [1, N, H, D]"""
    heads, groups, width = query.shape[1], key.shape[1], query.shape[3]
    flat_query, flat_key, flat_value = (part[0].transpose(0, 1).flatten(1) for part in (query, key, value))
    mixed = []
    for batch in attention.batches:
        own_query = _rows(flat_query, batch.queries, batch.rows, heads)
        own_key, own_value = (_rows(part, batch.keys, batch.rows, groups) for part in (flat_key, flat_value))
        own = scaled_dot_product_attention(
            own_query,
            own_key,
            own_value,
            attn_mask=batch.mask,
            is_causal=batch.mask is None,
            scale=scale,
            enable_gqa=heads != groups,
        )
        mixed.append(own.transpose(1, 2).reshape(-1, heads * width).index_select(0, batch.real))
    return torch.cat(mixed).index_select(0, attention.places).view(1, -1, heads, width)


def _rows(flat: Tensor, places: Tensor, rows: int, heads: int) -> Tensor:
    """Gather tokens into rows.  # [N, heads * D] -> [rows, heads, S, D]"""
    return flat.index_select(0, places).view(rows, len(places) // rows, heads, -1).transpose(1, 2)
