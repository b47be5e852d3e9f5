"""Attention of many sequences to one shared prefix, without a copy of the prefix for each of them.

Queries [B, H, S, D] meet the prefix's keys [1, G, P, D] in one matrix product and their own sequence's keys
in another; one softmax runs over both parts. That gives what attention over the repeated prefix
gives, and its gradient, with B times less memory traffic.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from arena.packing import Attention, attend

NAME = "league_shared_prefix"
FAMILIES = frozenset({"qwen2", "qwen3", "llama"})  # whose attention is scaled dot products and nothing else

KeysValues = list[tuple[Tensor, Tensor]]  # by layer: [1, G, P, D] each


def enable(model: Any) -> bool:
    """Let a model take ``shared_prefix=`` and ``packed=``; return False, changing nothing, if it attends otherwise.

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
    """Attend as ``transformers`` asks: return [B, S, H, D]."""
    pack: Attention | None = settings.pop("packed", None)
    if pack is not None:
        return attend(query, key, value, pack, settings["scaling"]), None
    prefix: KeysValues | None = settings.pop("shared_prefix", None)
    rows, heads, length, width = query.shape
    groups = key.shape[1]
    if prefix is None and length == 1:  # heads that share keys stand where positions would: keys are read once
        packed = query.view(rows, groups, -1, width)
        mixed = scaled_dot_product_attention(packed, key, value, attention_mask, scale=settings["scaling"])
        return mixed.reshape(rows, 1, heads, width), None
    if prefix is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    prefix_key, prefix_value = prefix[module.layer_idx]
    before = prefix_key.shape[2]
    query = (query * settings["scaling"]).contiguous()
    shared = query.view(rows, groups, -1, width).transpose(0, 1).reshape(groups, -1, width)  # [G, B (H/G) S, D]
    to_prefix = shared @ prefix_key[0].transpose(1, 2)  # [G, B (H/G) S, P]
    to_prefix = to_prefix.view(groups, rows, -1, before).transpose(0, 1)  # [B, G, (H/G) S, P]
    own = query.view(rows, groups, -1, width)
    to_own = own @ key.transpose(2, 3)  # [B, G, (H/G) S, S]
    allowed = _allowed(attention_mask, length, key.shape[2], query.device)
    blocked = ~allowed.repeat(1, 1, heads // groups, 1)
    weights = torch.cat([to_prefix, to_own.masked_fill(blocked, float("-inf"))], -1)
    weights = weights.softmax(-1, dtype=torch.float32).to(query.dtype)
    from_prefix = weights[..., :before].transpose(0, 1).reshape(groups, -1, before) @ prefix_value[0]
    from_prefix = from_prefix.view(groups, rows, -1, width).transpose(0, 1)
    mixed = from_prefix + weights[..., before:] @ value
    return mixed.reshape(rows, heads, length, width).transpose(1, 2).contiguous(), None


def _allowed(mask: Tensor | None, length: int, own: int, device: torch.device) -> Tensor:
    """Return which own keys each query, the last ``length`` of them, may attend to.  # [B or 1, 1, S, K]"""
    if mask is None:
        return torch.ones(length, own, dtype=torch.bool, device=device).tril(own - length)[None, None]
    return mask if mask.dtype == torch.bool else mask == 0


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
