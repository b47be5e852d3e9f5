"""The passes of a wide model with LoRA adapters, whose own weights are frozen: on a processor, in few operations.

``transformers`` and PEFT compute the same, in the type of the weights throughout. Here states, norms, attention and
adapters are in single precision, whatever type the frozen weights have, and only the products with those are in theirs.
So bfloat16, in which processors that know it multiply three to four times as fast, rounds what a layer adds and not the
sum of all layers; and logits, which it would round to 1/16 where they are near 16, come from a copy of the output head
in single precision.

Each product has one function with a gradient of its own: of its input and of the adapter, and none of frozen weights.
Of the last layer what follows attention is computed only where logits are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, linear, silu

from arena.lm.attention.prefix_attention import attend_as
from arena.lm.packing import attend
from arena.lm.plain_pass import RMSNorm, rotation, turned
from arena.lm.tensors import causal

LEAST_WIDTH = 512  # of hidden states; below it calls take as long as products
_INPUTS = {"input_ids", "attention_mask", "position_ids", "logits_to_keep", "use_cache", "past_key_values"}
_INPUTS |= {"shared_prefix", "packed"}


class LayerKeys(NamedTuple):
    """A layer's keys and values.  # [N, G, S, D] each"""

    keys: Tensor
    values: Tensor


class KeptLayers(NamedTuple):
    """The keys and values of all layers, named as ``transformers`` names them."""

    layers: list[LayerKeys]


class AdaptedOutput(NamedTuple):
    """What a pass computes."""

    logits: Tensor  # [N, keep, V]
    past_key_values: KeptLayers


class AdaptedPass:
    """The passes of one base model with any of its adapters, or none."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._layers = list(model.model.layers)
        self._epsilon, self._width = float(model.config.rms_norm_eps), int(model.model.layers[0].self_attn.head_dim)
        self._head: Tensor | None = None  # in single precision, once it is needed

    @classmethod
    def of(cls, model: Any) -> AdaptedPass | None:
        """Return the passes of a model; None for one that is not of Llama's or Qwen3's shape, or narrow."""
        config = model.config
        fits = (
            config.model_type in ("llama", "qwen3")
            and config.hidden_size >= LEAST_WIDTH
            and config.hidden_act == "silu"
            and not config.attention_bias
            and not config.attention_dropout
            and not getattr(config, "mlp_bias", False)
            and model.model.rotary_emb.rope_type == "default"
            and type(model.lm_head) is nn.Linear
            and model.lm_head.bias is None
        )
        return cls(model) if fits else None

    def suits(self) -> bool:
        """Return whether the weights are now where and as they are computed with here."""
        weight = self._model.lm_head.weight
        return (
            type(weight) is nn.Parameter
            and weight.device.type == "cpu"
            and weight.dtype in (torch.float32, torch.bfloat16)
            and not weight.requires_grad
        )

    def takes(self, inputs: Mapping[str, Any]) -> bool:
        """Return whether a pass with these inputs, named as ``transformers`` names them, is one of these."""
        keep = inputs.get("logits_to_keep", 0)
        reads = keep > 0 if isinstance(keep, int) else len(keep) > 0  # else another reads the states
        alone = inputs.keys() <= _INPUTS and inputs.get("past_key_values") is None
        return alone and reads and ("position_ids" in inputs or "attention_mask" not in inputs)

    def __call__(self, adapter: str | None, *, input_ids: Tensor, **inputs: Any) -> AdaptedOutput:
        """Return the logits of rows [N, S] at their last ``logits_to_keep`` tokens, or at those that it numbers."""
        (rows, length), keep = input_ids.shape, inputs["logits_to_keep"]
        prefix, pack, kept = inputs.get("shared_prefix"), inputs.get("packed"), list[LayerKeys]()
        places = torch.arange(length)[length - keep :] if isinstance(keep, int) else keep
        mask = None if pack is not None else inputs.get("attention_mask")
        allowed = None if mask is None else causal(length, length) & mask.bool()[:, None, None]  # [N, 1, S, S]
        states = embedding(input_ids, self._model.model.embed_tokens.weight).float()  # [N, S, H]
        positions = inputs.get("position_ids", torch.arange(length)[None])
        cos, sin = rotation(positions.expand(rows, length), self._model.model.rotary_emb)
        for layer in self._layers:
            own = layer.self_attn
            inner = self._normed(states, layer.input_layernorm)
            query, key, value = (
                _product(inner, projection, adapter).unflatten(-1, (-1, self._width))
                for projection in (own.q_proj, own.k_proj, own.v_proj)
            )  # [N, S, heads, D] each
            if hasattr(own, "q_norm"):
                query, key = self._normed(query, own.q_norm), self._normed(key, own.k_norm)
            query, key = (turned(part, cos, sin).transpose(1, 2) for part in (query, key))
            value = value.transpose(1, 2)
            if inputs.get("use_cache"):
                kept.append(LayerKeys(key, value))
            if pack is None:
                mixed = attend_as(own, query, key, value, allowed, prefix)
            else:
                mixed = attend(query, key, value, pack, own.scaling)
            mixed = mixed.flatten(2)  # [N, S, H]
            if layer is self._layers[-1]:  # nothing reads what this layer makes of other tokens
                mixed, states = mixed[:, places], states[:, places]
            states = states + _product(mixed, own.o_proj, adapter)
            inner, mlp = self._normed(states, layer.post_attention_layernorm), layer.mlp
            gate, through = (_product(inner, part, adapter) for part in (mlp.gate_proj, mlp.up_proj))
            gated: Tensor = _Gate.apply(gate, through)  # type: ignore[no-untyped-call]
            states = states + _product(gated, mlp.down_proj, adapter)
        states = self._normed(states, self._model.model.norm)
        logits = linear(states.flatten(0, 1), self._head_weight()).unflatten(0, states.shape[:2])
        return AdaptedOutput(logits, KeptLayers(kept))

    def _normed(self, states: Tensor, norm: Any) -> Tensor:
        normed: Tensor = RMSNorm.apply(states, norm.weight.float(), self._epsilon)  # type: ignore[no-untyped-call]
        return normed

    def _head_weight(self) -> Tensor:
        if self._head is None:
            with torch.inference_mode(False):  # else the first pass of an update could not keep it
                self._head = self._model.lm_head.weight.detach().float()
        return self._head


def _product(states: Tensor, module: Any, adapter: str | None) -> Tensor:
    """Return W x, and with an adapter scaling * B A x added, of states [..., in].  # [..., out]"""
    weight = module.weight  # PEFT's layers pass on that of the layer within
    flat = states.flatten(0, -2)
    if adapter is None or not hasattr(module, "lora_A") or adapter not in module.lora_A:
        product = linear(flat.to(weight.dtype), weight).float()
    else:
        down, up = module.lora_A[adapter].weight, module.lora_B[adapter].weight
        product = _Adapted.apply(flat, weight, down, up, module.scaling[adapter])  # type: ignore[no-untyped-call]
    shaped: Tensor = product.unflatten(0, states.shape[:-1])
    return shaped


class _Adapted(torch.autograd.Function):
    """W x + scaling * B A x of rows x [T, in], with W [out, in] frozen and in its own type, A [r, in], B [out, r]."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, down: Tensor, up: Tensor, scaling: float) -> Tensor:
        inner = states @ down.T
        ctx.save_for_backward(states, weight, down, up, inner)
        ctx.scaling = scaling
        return linear(states.to(weight.dtype), weight).float().addmm_(inner, up.T, alpha=scaling)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, down, up, inner = ctx.saved_tensors
        of_inner = (gradient @ up).mul_(ctx.scaling)
        of_states = of_down = of_up = None
        if ctx.needs_input_grad[0]:
            of_states = (gradient.to(weight.dtype) @ weight).float().addmm_(of_inner, down)
        if ctx.needs_input_grad[2]:
            of_down, of_up = of_inner.T @ states, (gradient.T @ inner).mul_(ctx.scaling)
        return of_states, None, of_down, of_up, None


class _Gate(torch.autograd.Function):
    """silu(gate) * through: what autograd computes, with half of the tensors kept."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, through: Tensor) -> Tensor:
        ctx.save_for_backward(gate, through)
        return silu(gate).mul_(through)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        gate, through = ctx.saved_tensors
        share = gate.sigmoid()
        opened = gate * share
        of_gate = (opened * share).neg_().add_(opened).add_(share)  # s + g s (1 - s)
        return of_gate.mul_(through).mul_(gradient), opened.mul_(gradient)
