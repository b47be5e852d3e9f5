"""The forward pass of a small model as ``transformers`` computes it, in a third of the calls.

Products of a pocket model take microseconds, and the modules, masks and hooks around them as long again. Here a layer
is a few lines on its weights, which modules of ``transformers`` hold: what is trained, saved and copied is theirs. (One
product for q, k and v, or for gate and up, was tried: it takes as long as two or three.)

Of the last layer only what is read is computed: the positions whose logits are kept, and the keys and values of the
others; of a prefix nothing but those. For a pocket model, which has two layers, that is a third less. And what several
rows begin with, as boards of the same first moves, is computed once in a large pass. Where all positions of a small one
are kept, logits have the bits of ``transformers``; else their last may differ, by products of another shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, linear, rms_norm, silu

from arena.lm.attention.prefix_attention import KeysValues, attend_as
from arena.lm.tensors import causal

_OF_KEYS = {"input_ids", "only_keys"}
_INPUTS = frozenset(
    ("input_ids", "attention_mask", "position_ids", "logits_to_keep", "past_key_values", "use_cache", "shared_prefix")
)
LEAST_SHARED = 256  # tokens of a pass, of which it is looked for those that rows share
MOST_DIFFERENT = 0.85  # of all tokens, as a share: of more, gathering takes longer than what it saves
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
            return self._run(input_ids, positions, None, None, 0)[1]
        mask, prefix = inputs.get("attention_mask"), inputs.get("shared_prefix")
        states, _ = self._run(input_ids, inputs["position_ids"], mask, prefix, inputs["logits_to_keep"])
        return Output(self._head(states))

    def _run(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, prefix: KeysValues | None, keep: int
    ) -> tuple[Tensor, KeysValues]:
        """Return the states at the last ``keep`` positions; with 0, keys and values instead.

        Between attentions, tokens that several rows begin with are computed once.
        """
        (rows, length), tree = ids.shape, _Tree.of(ids, mask)
        tokens, places = tree.once(ids.flatten()), tree.once(positions.expand(rows, length).flatten())
        states = embedding(tokens, self._embedding._parameters["weight"], self._embedding.padding_idx)  # [T, H]
        cos, sin = rotation(places, self._rotary)
        kept, last = [], self._layers[-1]
        allowed = None if mask is None else causal(length, length) & mask.bool()[:, None, None]  # [N, 1, S, S]
        for layer in self._layers:
            inner, (queries, keys, values) = self._normed(states, layer.before), layer.projections
            key = turned(self._by_head(inner, keys, layer.norms[1]), cos, sin)
            value = linear(inner, values["weight"]).unflatten(-1, (-1, self._width))
            key, value = (tree.spread(part).unflatten(0, (rows, length)).transpose(1, 2) for part in (key, value))
            if not keep:
                kept.append((key, value))
                if layer is last:
                    break
            if layer is last:  # nothing reads what this layer makes of other positions
                allowed = allowed if keep == length else _rows(allowed, length, keep, prefix)
                inner, states, cos, sin = (_last(tree.spread(part), rows, keep) for part in (inner, states, cos, sin))
                length, tree = keep, _Tree(None, None)
            query = turned(self._by_head(inner, queries, layer.norms[0]), cos, sin)
            query = tree.spread(query).unflatten(0, (rows, length)).transpose(1, 2)
            mixed = attend_as(layer.attention, query, key, value, allowed, prefix).reshape(rows * length, -1)
            states = states + linear(tree.once(mixed), layer.mixed["weight"])
            states = states + _mlp(self._normed(states, layer.between), *layer.mlp)
        return (self._normed(states, self._norm) if keep else states).unflatten(0, (rows, length)), kept

    def _by_head(self, states: Tensor, projection: _Held, norm: _Held) -> Tensor:
        """Return queries or keys by head, before their positions are turned in.  # [T, H or G, D]"""
        return self._normed(linear(states, projection["weight"]).unflatten(-1, (-1, self._width)), norm)

    def _normed(self, states: Tensor, norm: _Held) -> Tensor:
        if not torch.is_grad_enabled():
            return rms_norm(states, states.shape[-1:], norm["weight"], self._epsilon)  # in one call
        normed: Tensor = RMSNorm.apply(states, norm["weight"], self._epsilon)  # type: ignore[no-untyped-call]
        return normed


class _Tree(NamedTuple):
    """Rows [N, S] of tokens, of which T differ in what is read up to them; None: all do."""

    first: Tensor | None  # where each stands first  # [T]
    node: Tensor | None  # which one stands at each place  # [N S]

    @classmethod
    def of(cls, ids: Tensor, mask: Tensor | None) -> _Tree:
        """Return the tree of rows, or none where it would save too little."""
        rows, length = ids.shape
        if ids.numel() < LEAST_SHARED:
            return cls(None, None)
        columns = (ids if mask is None else torch.where(mask.bool(), ids, -1)).numpy()
        before, firsts, nodes, number = np.zeros(rows, np.int64), [], [], 0
        for column in range(length):
            pairs = before * (1 << 32) + columns[:, column] + 1
            _, starts, before = np.unique(pairs, return_index=True, return_inverse=True)
            nodes.append(before + number)
            firsts.append(starts * length + column)
            number += len(starts)
        first = np.concatenate(firsts)
        if len(first) > MOST_DIFFERENT * ids.numel():
            return cls(None, None)
        return cls(torch.from_numpy(first), torch.from_numpy(np.stack(nodes, 1).reshape(-1)))

    def once(self, values: Tensor) -> Tensor:
        """Return of values at all places those at which a token stands first.  # [N S, ...] -> [T, ...]"""
        return values if self.first is None else values.index_select(0, self.first)

    def spread(self, values: Tensor) -> Tensor:
        """Return each token's value at all of its places.  # [T, ...] -> [N S, ...]"""
        return values if self.node is None else values.index_select(0, self.node)


def _last(values: Tensor, rows: int, keep: int) -> Tensor:
    """Return the values of each row's last places.  # [N S, ...] -> [N keep, ...]"""
    last: Tensor = values.unflatten(0, (rows, -1))[:, -keep:].flatten(0, 1)
    return last


class RMSNorm(torch.autograd.Function):
    """Division by the root of the mean square, times weights [D]: what autograd computes, in half of the passes."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Return the states [..., D] normed, and keep what the gradient needs."""
        scale = torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + epsilon)
        unit = states * scale
        ctx.save_for_backward(unit, scale, weight)
        return weight * unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Return the gradients of states and, where they are trained, of weights."""
        unit, scale, weight = ctx.saved_tensors
        by_weight = gradient * unit
        along = (by_weight @ weight / -weight.shape[0]).unsqueeze(-1)
        of_states = (gradient * weight).addcmul_(unit, along).mul_(scale)
        return of_states, by_weight.flatten(0, -2).sum(0) if ctx.needs_input_grad[1] else None, None


class _Turn(torch.autograd.Function):
    """Rotation of the halves of each head's numbers by positions' angles (Su et al., arXiv 2104.09864)."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(states, cos, sin)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors  # angles are the same in both halves
        first, second = gradient.chunk(2, -1)
        return torch.addcmul(gradient * cos, torch.cat((second, -first), -1), sin), None, None


def _mlp(states: Tensor, gate: _Held, up: _Held, down: _Held) -> Tensor:
    gated = silu(linear(states, gate["weight"])) * linear(states, up["weight"])
    return linear(gated, down["weight"])


@torch.no_grad()
def rotation(positions: Tensor, rotary: Any) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of positions [..., T].  # [..., T, 1, D] each"""
    angles = positions[..., None].float() * rotary.inv_freq
    angles = torch.cat((angles, angles), -1)[..., None, :]
    return angles.cos() * rotary.attention_scaling, angles.sin() * rotary.attention_scaling


def turned(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each head's numbers [..., heads, D] by its position's angles."""
    if not torch.is_grad_enabled():
        return _rotated(states, cos, sin)
    turned: Tensor = _Turn.apply(states, cos, sin)  # type: ignore[no-untyped-call]
    return turned


def _rotated(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = states.chunk(2, -1)
    return (states * cos).add_(torch.cat((-second, first), -1).mul_(sin))


def _rows(allowed: Tensor | None, length: int, keep: int, prefix: KeysValues | None) -> Tensor | None:
    """Return which keys the last queries see; None where attention takes them for the last without being told."""
    if allowed is not None:
        return allowed[:, :, -keep:]
    return None if keep == 1 or prefix else causal(keep, length)
