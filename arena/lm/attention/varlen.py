"""Attention of packed sequences in one kernel that takes lengths, not masks or padding: PyTorch's flash kernel.

A suffix attends to its shared prefix and to itself, so its keys are those of both, one behind the other; its queries
are the last of them, and causal attention is aligned to the end. Keys of a prefix are copied for each suffix, which
takes a GPU less than the masks and the padding of ``arena.lm.packing`` do. On other devices, and where the kernel is
not to be had, ``by_sequence`` computes the same sequence by sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from inspect import signature
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

from arena.lm.tensors import causal, to_device

FIRST_WITH_FLASH = (8, 0)  # compute capability: Ampere
WIDEST = 256  # numbers in a head
# Before 2.12 the kernel took fewer heads of keys than of queries without being told.
TELLS_OF_GROUPS = "enable_gqa" in signature(varlen_attn).parameters


class Span(NamedTuple):
    """A sequence in a pack, and the prefix before it."""

    start: int
    length: int
    prefix_start: int
    prefix_length: int


class Spans(NamedTuple):
    """Sequences one behind another, as the kernel takes them."""

    keys: Tensor  # index of each key among the packed tokens  # [K]
    query_ends: Tensor  # where each sequence's queries end, after a 0; 32 bits  # [sequences + 1]
    key_ends: Tensor  # likewise its keys
    most_queries: int
    most_keys: int


def lay_out_spans(spans: Sequence[Span], device: torch.device) -> Spans:
    """Return sequences, which follow each other without a gap, as tensors."""
    keys = [
        torch.arange(first, first + length)
        for span in spans
        for first, length in ((span.prefix_start, span.prefix_length), (span.start, span.length))
    ]
    queries_of = [span.length for span in spans]
    keys_of = [span.prefix_length + span.length for span in spans]
    query_ends, key_ends = (
        to_device(list(accumulate(sizes, initial=0)), device, torch.int32) for sizes in (queries_of, keys_of)
    )
    return Spans(to_device(torch.cat(keys), device), query_ends, key_ends, max(queries_of), max(keys_of))


def attend_spans(query: Tensor, key: Tensor, value: Tensor, spans: Spans, scale: float) -> Tensor:
    """Attend within each sequence.  # [1, H, N, D], [1, G, N, D] twice -> [1, N, H, D]"""
    queries, keys, values = (part[0].transpose(0, 1) for part in (query, key, value))
    keys, values = keys.index_select(0, spans.keys), values.index_select(0, spans.keys)
    if not query.is_cuda:
        return by_sequence(queries, keys, values, spans, scale)[None]
    return _kernel(queries.contiguous(), keys, values, spans, scale)[None]


def _kernel(queries: Tensor, keys: Tensor, values: Tensor, spans: Spans, scale: float) -> Tensor:
    """Attend within each sequence, all at once.  # [N, H, D], [K, G, D] twice -> [N, H, D]"""
    ends = spans.query_ends, spans.key_ends, spans.most_queries, spans.most_keys
    grouped: dict[str, Any] = {"enable_gqa": queries.shape[1] != keys.shape[1]} if TELLS_OF_GROUPS else {}
    mixed = varlen_attn(queries, keys, values, *ends, scale=scale, window_size=(-1, 0), **grouped)
    assert isinstance(mixed, Tensor), "it was not asked for more"
    return mixed


def by_sequence(queries: Tensor, keys: Tensor, values: Tensor, spans: Spans, scale: float) -> Tensor:
    """Attend within each sequence, one after another.  # [N, H, D], [K, G, D] twice -> [N, H, D]"""
    sizes = [(ends[1:] - ends[:-1]).tolist() for ends in (spans.query_ends, spans.key_ends)]
    parts = (
        part.transpose(0, 1).split(size, 1)
        for part, size in zip((queries, keys, values), (*sizes, sizes[1]), strict=True)
    )
    mixed = [
        scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=causal(q.shape[1], k.shape[1], q.device),
            scale=scale,
            enable_gqa=q.shape[0] != k.shape[0],
        )
        for q, k, v in zip(*parts, strict=True)
    ]
    return torch.cat(mixed, 1).transpose(0, 1)


@cache
def has_kernel(device: torch.device, dtype: torch.dtype, heads: int, groups: int, width: int) -> bool:
    """Return whether a device has the kernel, and it aligns causal attention to the end, as tried on a few numbers."""
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16) or width > WIDEST or width % 8:
        return False
    if torch.cuda.get_device_capability(device) < FIRST_WITH_FLASH:
        return False
    spans = lay_out_spans([Span(0, 3, 0, 0), Span(3, 2, 0, 3)], device)
    shapes = ((5, heads), (8, groups), (8, groups))
    numbers = [torch.arange(n * h * width, dtype=torch.float32).sin().view(n, h, width) for n, h in shapes]
    query, keys, values = (part.to(device, dtype) for part in numbers)
    attended = _kernel(query, keys, values, spans, width**-0.5)
    expected = by_sequence(query.float(), keys.float(), values.float(), spans, width**-0.5)
    return bool((attended.float() - expected).abs().max() < 0.05)  # an alignment to the start is off by more than 0.5
