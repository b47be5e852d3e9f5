"""Passes of a small model that decodes: few products on stacked weights, keys written where they stay.

The numbers are those of ``arena.lm.plain_pass`` up to rounding; what differs is how often memory is passed over.
Queries, keys and values are one product, gates and what they let through another, and the weights of the norms before
them are multiplied into theirs. The rows of the queries' and keys' weights are put in another order, so that the two
numbers which a position turns stand side by side and are turned as one complex number: products of queries and keys are
the same sums in that order. Keys and values go straight into the cache. Of a prompt only the last token needs what
follows the keys and values of the last layer.

Weights are stacked anew for each batch, so that none of an earlier version is left. It takes as long as to read one
prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, silu

from arena.lm.attention.prefix_attention import KeysValues, attend_as
from arena.lm.tensors import causal, heads

MOST_TOKENS = 1024  # in a pass over prompts: what a layer computes then stays in a processor's cache


class _Layer(NamedTuple):
    """One layer's weights, each with that of the norm before it multiplied in."""

    attention: Any  # the module, of which the attention takes its settings
    projections: Tensor  # of queries, keys and values  # [(H + 2 G) D, hidden]
    scales: Tensor  # of the norms of queries and keys, in the order of the projections  # [H + G, D]
    mixed: Tensor  # [H D, hidden]
    gates: Tensor  # and what they let through  # [2 inner, hidden]
    down: Tensor  # [inner, hidden]


class StackedPass:
    """The passes of a model without adapters, with its present weights; call it without gradients."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._heads, self._groups, self._width = heads(model.config)
        self._epsilon = float(model.config.rms_norm_eps)
        self._layers = [self._stacked(layer) for layer in model.model.layers]
        self._turns = torch.empty(0, 1, self._width // 2, dtype=torch.complex64)

    def _stacked(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        turned = torch.cat([attention.q_proj.weight, attention.k_proj.weight])
        projections = torch.cat([self._side_by_side(turned), attention.v_proj.weight])
        counts = (self._heads, attention.q_norm.weight), (self._groups, attention.k_norm.weight)
        scales = torch.cat([norm.expand(count, -1).reshape(-1, 1) for count, norm in counts])
        return _Layer(
            attention,
            projections.mul_(layer.input_layernorm.weight),
            self._side_by_side(scales).view(-1, self._width),
            attention.o_proj.weight.t(),
            torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).mul_(layer.post_attention_layernorm.weight),
            mlp.down_proj.weight.t(),
        )

    def _side_by_side(self, rows: Tensor) -> Tensor:
        """Put the halves of each head's rows [heads D, n] one row beside the other."""
        return rows.view(-1, 2, self._width // 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)

    def keys_of(self, prefix: Sequence[int]) -> KeysValues:
        """Return the keys and values of a sequence, by layer.  # [1, G, P, D] each"""
        shape = 1, self._groups, len(prefix), self._width
        kept = [(torch.empty(shape), torch.empty(shape)) for _ in self._layers]
        ids = torch.tensor([prefix])
        self._run(ids, torch.arange(len(prefix)), None, None, kept, only_keys=True)
        return kept

    def __call__(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, prefix: KeysValues | None, kept: KeysValues
    ) -> Tensor:
        """Return the logits at the last of tokens [N, S].  # [N, V]

        ``positions`` are [S] where they are the same for all rows, else [N, S]. ``kept`` are the keys and values
        [N, G, K, D] of the tokens that are attended to behind ``prefix``, by layer: the last S of them are written.
        ``mask`` [N, K] says which are no padding.
        """
        states = self._run(ids, positions, mask, prefix, kept, only_keys=False)
        logits: Tensor = self._model.lm_head(
            states.mul_(_scale(states, self._epsilon)).mul_(self._model.model.norm.weight)
        )
        return logits

    def _run(
        self,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        prefix: KeysValues | None,
        kept: KeysValues,
        *,
        only_keys: bool,
    ) -> Tensor:
        """Return the last states of the last tokens.  # [N, hidden]"""
        rows, length = ids.shape
        states = embedding(ids.flatten(), self._model.model.embed_tokens.weight)  # [N S, hidden]
        turns = self._turns_of(positions)
        allowed = None if mask is None else _allowed(mask, length)
        for layer, (keys, values) in zip(self._layers, kept, strict=True):
            last = layer is self._layers[-1]
            inner = states * _scale(states, self._epsilon)
            query, key, value = self._project(layer, inner.view(rows, length, -1), turns, ends=last)
            keys[:, :, -length:] = key
            values[:, :, -length:] = value
            if last and only_keys:
                break
            if last and length > 1:
                states = states.view(rows, length, -1)[:, -1].clone()
                allowed = None if allowed is None else allowed[:, :, -1:]
            if query.shape[2] == 1 and prefix is None:
                mixed = _attend_one(query * layer.attention.scaling, keys, values, allowed)
            elif length == 1:
                mixed = attend_as(layer.attention, query, keys, values, allowed, prefix)
            else:
                mixed = attend_as(layer.attention, query, key, value, allowed, prefix)
            states.addmm_(mixed.reshape(len(states), -1), layer.mixed)
            inner = states * _scale(states, self._epsilon)
            gate, through = linear(inner, layer.gates).chunk(2, -1)
            states.addmm_(silu(gate, inplace=True).mul_(through), layer.down)
        return states

    def _project(self, layer: _Layer, inner: Tensor, turns: Tensor, *, ends: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries [N, H, S, D], with ``ends`` of the last token only, and keys and values [N, G, S, D]."""
        rows, length, _ = inner.shape
        if ends and length > 1:
            first = self._heads * self._width
            query = linear(inner[:, -1].contiguous(), layer.projections[:first]).view(rows, 1, self._heads, self._width)
            self._turn(query, layer.scales[: self._heads], turns[..., -1:, :, :])
            rest = linear(inner, layer.projections[first:]).view(rows, length, -1, self._width)
            key = rest[:, :, : self._groups]
            self._turn(key, layer.scales[self._heads :], turns)
        else:
            rest = linear(inner, layer.projections).view(rows, length, -1, self._width)
            both = rest[:, :, : -self._groups]
            self._turn(both, layer.scales, turns)
            query, key = both.split((self._heads, self._groups), 2)
        return query.transpose(1, 2), key.transpose(1, 2), rest[:, :, -self._groups :].transpose(1, 2)

    def _turn(self, states: Tensor, scales: Tensor, turns: Tensor) -> None:
        """Scale and turn queries or keys [N, S, heads, D] in place."""
        states.mul_(_scale(states, self._epsilon)).mul_(scales)
        torch.view_as_complex(states.unflatten(-1, (-1, 2))).mul_(turns)

    def _turns_of(self, positions: Tensor) -> Tensor:
        """Return what numbers at positions [S] or [N, S] are multiplied by.  # [S or N, S, 1, D / 2], complex"""
        most = int(positions.max()) + 1
        if most > len(self._turns):
            rotary = self._model.model.rotary_emb
            angles = torch.arange(most + 64)[:, None].float() * rotary.inv_freq
            turns = torch.complex(angles.cos(), angles.sin()) * rotary.attention_scaling
            self._turns = turns[:, None]
        return self._turns[positions]


def _scale(states: Tensor, epsilon: float) -> Tensor:
    """Return one over the root mean square of rows.  # [..., 1]"""
    squares: Tensor = torch.linalg.vecdot(states, states)
    return squares.div_(states.shape[-1]).add_(epsilon).rsqrt_()[..., None]


def _attend_one(query: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None) -> Tensor:
    """Attend from one token of each row, whose queries [N, H, 1, D] are scaled.  # [N, G, H / G, D]

    PyTorch's own attention reads keys token by token; as they lie in the cache, one product reads them in order.
    """
    rows, groups = keys.shape[:2]
    weights = query.reshape(rows, groups, -1, query.shape[3]) @ keys.transpose(2, 3)
    if allowed is not None:
        weights.masked_fill_(~allowed, float("-inf"))
    return weights.softmax(-1) @ values


def _allowed(mask: Tensor, length: int) -> Tensor:
    """Return which of its row's keys [N, K] each of the last tokens sees: none after it, and no padding.

    # [N, 1, S, K]
    """
    real = mask.bool()[:, None, None]
    return real if length == 1 else real & causal(length, mask.shape[1])
