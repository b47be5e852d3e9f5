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
from torch.nn.functional import embedding, linear, rms_norm, silu

from arena.lm.attention.prefix_attention import KeysValues, attend_as

_OF_KEYS = {"input_ids", "only_keys"}
_INPUTS = frozenset(
    ("input_ids", "attention_mask", "position_ids", "logits_to_keep", "past_key_values", "use_cache", "shared_prefix")
)
MOST_WIDTH = 512  # of hidden states, from which the products take so long that the calls do not matter


class Output(NamedTuple):
    """What a pass computes."""

    logits: Tensor  # at the last positions of each row  # [N, keep, V]


_Held = dict[str, Any]  # a module's parameters by name, as the module holds them: its attributes are slow to look up


class _Layer(NamedTuple):
    """What a layer computes with."""

    attention: Any  # the module, of which the attention takes its settings
    before: _Held  # the norm
    projections: tuple[_Held, _Held, _Held]  # of queries, keys and values
    norms: tuple[_Held, _Held]  # of queries and keys
    mixed: _Held
    between: _Held  # the norm
    mlp: tuple[_Held, _Held, _Held]  # gate, up and down

    @classmethod
    def of(cls, layer: Any) -> _Layer:
        """Return what a module of ``transformers`` computes with."""
        own, mlp = layer.self_attn, layer.mlp
        return cls(
            own,
            layer.input_layernorm._parameters,
            (own.q_proj._parameters, own.k_proj._parameters, own.v_proj._parameters),
            (own.q_norm._parameters, own.k_norm._parameters),
            own.o_proj._parameters,
            layer.post_attention_layernorm._parameters,
            (mlp.gate_proj._parameters, mlp.up_proj._parameters, mlp.down_proj._parameters),
        )


class PlainPass:
    """The passes of one model without adapters."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._layers = [_Layer.of(layer) for layer in model.model.layers]
        self._embedding, self._norm = model.model.embed_tokens, model.model.norm._parameters
        self._head, self._rotary = model.lm_head, model.model.rotary_emb
        self._epsilon, self._width = float(model.config.rms_norm_eps), int(model.model.layers[0].self_attn.head_dim)

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
            return self._run(input_ids, positions, None, None, ends_with_keys=True)[1]
        mask, prefix = inputs.get("attention_mask"), inputs.get("shared_prefix")
        states, _ = self._run(input_ids, inputs["position_ids"], mask, prefix, ends_with_keys=False)
        return Output(self._head(states[:, -inputs["logits_to_keep"] :]))

    def _run(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, prefix: KeysValues | None, *, ends_with_keys: bool
    ) -> tuple[Tensor, KeysValues]:
        kept = []
        states = embedding(ids, self._embedding._parameters["weight"], self._embedding.padding_idx)
        turns = _rotation(positions, self._rotary)
        allowed, last = None if mask is None else _causal(mask), self._layers[-1]
        for layer in self._layers:
            query, key, value = self._projected(self._normed(states, layer.before), layer, turns)
            if ends_with_keys:
                kept.append((key, value))
                if layer is last:
                    break
            mixed = attend_as(layer.attention, query, key, value, allowed, prefix)
            states = states + linear(mixed.reshape(*ids.shape, -1), layer.mixed["weight"])
            states = states + _mlp(self._normed(states, layer.between), *layer.mlp)
        return (states if ends_with_keys else self._normed(states, self._norm)), kept

    def _normed(self, states: Tensor, norm: _Held) -> Tensor:
        return rms_norm(states, states.shape[-1:], norm["weight"], self._epsilon)

    def _projected(self, states: Tensor, layer: _Layer, turns: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries [N, H, S, D], keys and values [N, G, S, D]; positions are turned into the first two."""
        shape, (cos, sin) = (*states.shape[:-1], -1, self._width), turns
        query, key, value = [linear(states, held["weight"]).view(shape) for held in layer.projections]
        query, key = (
            self._normed(query, layer.norms[0]).transpose(1, 2),
            self._normed(key, layer.norms[1]).transpose(1, 2),
        )
        return _turned(query, cos, sin), _turned(key, cos, sin), value.transpose(1, 2)


def _mlp(states: Tensor, gate: _Held, up: _Held, down: _Held) -> Tensor:
    gated = silu(linear(states, gate["weight"])) * linear(states, up["weight"])
    return linear(gated, down["weight"])


@torch.no_grad()
def _rotation(positions: Tensor, rotary: Any) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of positions [N, S].  # [N, 1, S, D] each"""
    angles = positions[..., None].float() * rotary.inv_freq
    angles = torch.cat((angles, angles), -1)[:, None]
    return angles.cos() * rotary.attention_scaling, angles.sin() * rotary.attention_scaling


def _turned(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    turned = states * cos  # before the halves: gradients are summed in the order of these lines
    first, second = states.chunk(2, -1)
    return turned.add_(torch.cat((-second, first), -1).mul_(sin))


def _causal(mask: Tensor) -> Tensor:
    """Return which keys each query sees: none after it, and no padding.  # [N, 1, S, S]"""
    length = mask.shape[1]
    return torch.ones(length, length, dtype=torch.bool).tril() & mask.bool()[:, None, None]
