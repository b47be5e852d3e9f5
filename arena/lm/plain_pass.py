"""The forward pass of a small model as ``transformers`` computes it, bit for bit, in a third of the calls.

Products of a pocket model take microseconds, and the modules, masks and hooks around them as long again. Here a layer
is a few lines on its weights. Each number is computed by the same sum as in ``transformers``, whose modules hold the
weights: what is trained, saved and copied is theirs. (One product for q, k and v, or for gate and up, was tried: it
takes as long as two or three.)

A prefix of which only keys and values are needed ends with those of its last layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, silu

from arena.lm.attention.prefix_attention import KeysValues, attend_as

_OF_KEYS = {"input_ids", "only_keys"}
_INPUTS = frozenset(
    ("input_ids", "attention_mask", "position_ids", "logits_to_keep", "past_key_values", "use_cache", "shared_prefix")
)
MOST_WIDTH = 512  # of hidden states, from which the products take so long that the calls do not matter


class Output(NamedTuple):
    """What a pass computes."""

    logits: Tensor  # at the last positions of each row  # [N, keep, V]


class PlainPass:
    """The passes of one model without adapters."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @classmethod
    def of(cls, model: Any) -> PlainPass | None:
        """Return the passes of a model; None for one that is not of Qwen3's shape, in single precision, and small."""
        config = model.config
        fits = (
            config.model_type == "qwen3"
            and config.hidden_size < MOST_WIDTH
            and config.hidden_act == "silu"
            and not config.attention_bias
            and not config.attention_dropout
            and model.model.rotary_emb.rope_type == "default"
            and type(model.lm_head) is nn.Linear
        )
        return cls(model) if fits else None

    def suits(self) -> bool:
        """Return whether the weights are now where and as they are computed with here."""
        weight = self._model.lm_head.weight
        return type(weight) is nn.Parameter and weight.device.type == "cpu" and weight.dtype == torch.float32

    def takes(self, inputs: Mapping[str, Any]) -> bool:
        """Return whether a pass with these inputs, named as ``transformers`` names them, is one of these."""
        rows = inputs.keys() <= _INPUTS and not inputs.get("use_cache") and inputs.get("past_key_values") is None
        return inputs.keys() == _OF_KEYS or (rows and "position_ids" in inputs and "logits_to_keep" in inputs)

    def __call__(self, *, input_ids: Tensor, only_keys: bool = False, **inputs: Any) -> Output | KeysValues:
        """Return the logits of rows [N, S] at their last ``logits_to_keep`` positions, behind ``shared_prefix`` if any.

        With ``only_keys``, return one row's keys and values, by layer.
        """
        if only_keys:
            positions = torch.arange(input_ids.shape[1])[None]
            return self._layers(input_ids, positions, None, None, ends_with_keys=True)[1]
        mask, prefix = inputs.get("attention_mask"), inputs.get("shared_prefix")
        states, _ = self._layers(input_ids, inputs["position_ids"], mask, prefix, ends_with_keys=False)
        return Output(self._model.lm_head(states[:, -inputs["logits_to_keep"] :]))

    def _layers(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, prefix: KeysValues | None, *, ends_with_keys: bool
    ) -> tuple[Tensor, KeysValues]:
        model, kept = self._model.model, []
        states = embedding(ids, model.embed_tokens.weight, model.embed_tokens.padding_idx)
        cos, sin = _rotation(positions, model.rotary_emb)
        allowed, last = None if mask is None else _causal(mask), len(model.layers) - 1
        for number, layer in enumerate(model.layers):
            inner, attention = _normed(states, layer.input_layernorm), layer.self_attn
            query, key, value = _projected(inner, attention)
            query, key = query * cos + _turned(query) * sin, key * cos + _turned(key) * sin
            if ends_with_keys:
                kept.append((key, value))
                if number == last:
                    break
            mixed = attend_as(attention, query, key, value, allowed, prefix)
            states = states + linear(mixed.reshape(*ids.shape, -1), attention.o_proj.weight)
            states = states + _mlp(_normed(states, layer.post_attention_layernorm), layer.mlp)
        return (states if ends_with_keys else _normed(states, model.norm)), kept


def _normed(states: Tensor, norm: Any) -> Tensor:
    scale = torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    weight: Tensor = norm.weight
    return weight * (states * scale)


def _projected(states: Tensor, attention: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries [N, H, S, D], keys and values [N, G, S, D], before their positions are turned in."""
    shape = (*states.shape[:-1], -1, attention.head_dim)
    projections = attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight
    query, key, value = [linear(states, weight).view(shape) for weight in projections]
    query, key = _normed(query, attention.q_norm), _normed(key, attention.k_norm)
    return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


def _mlp(states: Tensor, mlp: Any) -> Tensor:
    gated = silu(linear(states, mlp.gate_proj.weight)) * linear(states, mlp.up_proj.weight)
    return linear(gated, mlp.down_proj.weight)


@torch.no_grad()
def _rotation(positions: Tensor, rotary: Any) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of positions [N, S].  # [N, 1, S, D] each"""
    angles = positions[..., None].float() * rotary.inv_freq
    angles = torch.cat((angles, angles), -1)[:, None]
    return angles.cos() * rotary.attention_scaling, angles.sin() * rotary.attention_scaling


def _turned(states: Tensor) -> Tensor:
    first, second = states.chunk(2, -1)
    return torch.cat((-second, first), -1)


def _causal(mask: Tensor) -> Tensor:
    """Return which keys each query sees: none after it, and no padding.  # [N, 1, S, S]"""
    length = mask.shape[1]
    return torch.ones(length, length, dtype=torch.bool).tril() & mask.bool()[:, None, None]
