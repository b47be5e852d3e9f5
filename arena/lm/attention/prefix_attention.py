"""Attention of many sequences to one shared prefix, without a copy of the prefix for each sequence.

Queries [B, H, S, D] are multiplied by the prefix's keys [1, G, P, D] in one matrix product and by their own
sequence's keys in another; one softmax runs over both parts. The result and its gradient are those of attention over
the repeated prefix, with B times less memory traffic.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from arena.lm.attention.varlen import Spans, attend_spans
from arena.lm.packing import Attention, attend
from arena.lm.tensors import causal

NAME = "league_shared_prefix"
FAMILIES = frozenset({"qwen2", "qwen3", "llama"})  # with plain scaled dot-product attention

KeysValues = list[tuple[Tensor, Tensor]]  # by layer: [1, G, P, D] each


def enable(model: Any) -> bool:
    """Let a model take ``shared_prefix=`` and ``packed=``; return False, changing nothing, if it is not plain.

    Without those arguments the model attends as with "sdpa".
    """
    config = model.config
    plain = config.model_type in FAMILIES and set(getattr(config, "layer_types", None) or ["full_attention"]) == {
        "full_attention"
    }
    if plain:
        model.set_attn_implementation(NAME)
    return plain


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, None]:
    """Implement ``transformers``' attention interface: return [B, S, H, D]."""
    pack: Attention | Spans | None = settings.pop("packed", None)
    if isinstance(pack, Spans):
        return attend_spans(query, key, value, pack, settings["scaling"]), None
    if pack is not None:
        return attend(query, key, value, pack, settings["scaling"]), None
    prefix: KeysValues | None = settings.pop("shared_prefix", None)
    rows, heads, length, width = query.shape
    groups = key.shape[1]
    if prefix is None and length == 1:  # the heads of a group take the place of positions: keys are read once
        packed = query.view(rows, groups, -1, width)
        mixed = scaled_dot_product_attention(packed, key, value, attention_mask, scale=settings["scaling"])
        return mixed.reshape(rows, 1, heads, width), None
    if prefix is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    prefix_key, prefix_value = prefix[module.layer_idx]
    if prefix_key.dtype != query.dtype:  # passes of a base in bfloat16 may read it in single precision
        prefix_key, prefix_value = prefix_key.to(query.dtype), prefix_value.to(query.dtype)
    prefix_length = prefix_key.shape[2]
    query = (query * settings["scaling"]).contiguous()
    shared = query.view(rows, groups, -1, width).transpose(0, 1).reshape(groups, -1, width)  # [G, B (H/G) S, D]
    to_prefix = shared @ prefix_key[0].transpose(1, 2)  # [G, B (H/G) S, P]
    to_prefix = to_prefix.view(groups, rows, -1, prefix_length).transpose(0, 1)  # [B, G, (H/G) S, P]
    grouped = query.view(rows, groups, -1, width)
    to_suffix = grouped @ key.transpose(2, 3)  # [B, G, (H/G) S, S]
    if attention_mask is not None and attention_mask.shape[3] == prefix_length + key.shape[2]:  # of the prefix too
        weights = torch.cat([to_prefix, to_suffix], -1).masked_fill(~attention_mask, float("-inf"))
    else:
        allowed = _allowed(attention_mask, length, key.shape[2], query.device)
        blocked = ~allowed.repeat(1, 1, heads // groups, 1)
        weights = torch.cat([to_prefix, to_suffix.masked_fill(blocked, float("-inf"))], -1)
    weights = weights.softmax(-1, dtype=torch.float32).to(query.dtype)
    from_prefix = weights[..., :prefix_length].transpose(0, 1).reshape(groups, -1, prefix_length) @ prefix_value[0]
    from_prefix = from_prefix.view(groups, rows, -1, width).transpose(0, 1)
    mixed = from_prefix + weights[..., prefix_length:] @ value
    return mixed.reshape(rows, heads, length, width).transpose(1, 2).contiguous(), None


def attend_as(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, prefix: KeysValues | None
) -> Tensor:
    """Return what an attention module computes with this interface, behind a prefix if one is given.  # [B, S, H, D]"""
    settings = {} if prefix is None else {"shared_prefix": prefix}
    return _attend(module, query, key, value, mask, dropout=0.0, scaling=module.scaling, **settings)[0]


def _allowed(mask: Tensor | None, length: int, keys: int, device: torch.device) -> Tensor:
    """Return which of its sequence's keys each query, the last ``length``, may attend to.  # [B or 1, 1, S, K]"""
    if mask is None:
        return causal(length, keys, device)[None, None]
    return mask if mask.dtype == torch.bool else mask == 0


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
