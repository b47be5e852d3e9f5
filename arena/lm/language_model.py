"""The language model that play and learning share: text to tokens, tokens to log-probs in nats.

One code path computes log-probs for sampler and learner, with gradients or without, so that the two can differ only by
rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import load, load_file
from torch import Tensor
from torch.nn import Parameter
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from arena.flops import PassCost
from arena.lm.adapted_pass import AdaptedPass
from arena.lm.attention import prefix_attention
from arena.lm.attention.varlen import has_kernel
from arena.lm.chunks import Chunk, Tokens, plan_chunks, tokens_of
from arena.lm.logprobs import ChoiceLogprobs, choice_logprobs, tempered
from arena.lm.packing import GROUP_COST, Pack, join_chunks, lay_out_ends, packed_inputs
from arena.lm.plain_pass import PlainPass
from arena.lm.tensors import copied_modules, heads, own_memory, to_device, use_contiguous_states
from arena.lm.tokenization import ChatTokenizer, context_of, read_config, read_tokenizer, readable
from games.common.errors import UsageError
from roles.trie import ReplyTrie

MOST_WEIGHTS = 8  # in a byte of a model's files: of 1 bit each
PACKED_WIDTH = 512  # of hidden states, from which products gain more by longer passes than attention loses by gathering

transformers_logging.disable_progress_bar()  # they would overwrite the live view


class SwitchesAdapters(Protocol):
    """The adapters on a base model (``arena.lm.lora.Adapters``)."""

    base: LanguageModel

    def activate(self, adapter: str | None) -> None:
        """Run the next forward passes with this adapter, or with none."""
        ...

    def passes_for(self, inputs: Mapping[str, Any]) -> AdaptedPass | None:
        """Return what computes a pass with these inputs without ``transformers``' modules, where that suits."""
        ...


class LanguageModel(ChatTokenizer):
    """A Hugging Face causal LM with its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, like: LanguageModel | None = None) -> None:
        super().__init__(tokenizer, context_of(model.config), type(model).__name__, like)
        self.model = model
        use_contiguous_states(model)
        self.shares_prefix = prefix_attention.enable(model)
        self.adapters: SwitchesAdapters | None = None  # on this model's weights; this view runs without them
        self.view = ""  # of several on the same weights
        self.version: int | None = (
            None  # updates of the policy in training whose weights these are; None: not in training
        )
        self.plain = PlainPass.of(model) if self.shares_prefix else None  # small models' passes; None: the model's own
        self._suit_device()
        self._cost: PassCost | None = None

    @classmethod
    def load(cls, source: str | Path, *, device: str = "cpu", dtype: str = "float32") -> LanguageModel:
        """Load a folder in Hugging Face layout, or a hub id. Raises UsageError where there is none."""
        tokenizer = read_tokenizer(source)
        with readable(source):
            _check_size(Path(source))
            model: Any = AutoModelForCausalLM.from_pretrained(
                str(source), dtype=getattr(torch, dtype), trust_remote_code=False
            )
        model.to(device).eval()
        own_memory(model)  # they are windows on the file until here
        return cls(model, tokenizer)

    @classmethod
    def without_data(cls, source: str | Path, *, dtype: str = "float32") -> LanguageModel:
        """Return a model of a folder's shape whose weights are on the meta device; buffers have their values."""
        from accelerate import init_empty_weights  # type: ignore[import-untyped]  # slow to import

        with init_empty_weights(include_buffers=False):
            model: Any = AutoModelForCausalLM.from_config(
                read_config(source), dtype=getattr(torch, dtype), trust_remote_code=False
            )
        model.tie_weights()
        return cls(model.eval(), read_tokenizer(source))

    def with_weights(self, folder: Path) -> LanguageModel:
        """Return a model of the same shape with the weights that ``save`` wrote, sharing this tokenizer.

        Raises UsageError, with the folder named, for weights of another shape.
        """
        self._check_no_adapters()
        empty: dict[int, Any] = {
            id(weight): Parameter(torch.empty_like(weight), requires_grad=False) for weight in self.model.parameters()
        }
        empty |= {id(config): copy.copy(config) for config in (self.model.config, self.model.generation_config)}
        # Without the weights, whose place others take.
        model = copied_modules(self.model, empty) if self.plain else copy.deepcopy(self.model, empty)
        saved: dict[str, Tensor] = {}
        with readable(folder):
            for path in sorted(folder.glob("*.safetensors")):  # mapping takes longer than reading little
                saved |= load(path.read_bytes()) if self.plain else load_file(path)
        own = model.state_dict(keep_vars=True)  # tied weights under each of their names
        given = {name: weight for name, weight in own.items() if name in saved}
        filled = set(map(id, given.values()))
        if lacking := [name for name, weight in own.items() if id(weight) not in filled]:
            raise UsageError(
                f"The weights in {folder} lack {', '.join(lacking[:3])}, which the model they are loaded into has."
            )
        for name, weight in given.items():
            if weight.shape != saved[name].shape:
                raise UsageError(
                    f"The weights in {folder} do not fit the model they are loaded into: size mismatch of {name}, "
                    f"{list(saved[name].shape)} instead of {list(weight.shape)}."
                )
            weight.copy_(saved[name])
        return LanguageModel(model, self.tokenizer, self)

    def copy(self) -> LanguageModel:
        """Return a model with a copy of the weights and the same tokenizer."""
        self._check_no_adapters()
        model = copy.deepcopy(self.model)
        model.zero_grad(set_to_none=True)  # deepcopy copies gradients too
        return LanguageModel(model, self.tokenizer, self)

    def frozen_copy(self) -> LanguageModel:
        """Return a copy with the present weights that is not trained."""
        frozen = self.copy()
        frozen.model.requires_grad_(False)
        return frozen

    def untrained(self) -> LanguageModel:
        """Return a frozen model with the weights from before training; call this before training begins."""
        return self.frozen_copy()

    def parameters(self) -> dict[str, Parameter]:
        """Return the trainable parameters by name."""
        return dict(self.model.named_parameters())

    @property
    def cost(self) -> PassCost:
        """What a token costs in a forward pass."""
        if self._cost is None:
            self._cost = PassCost.of(self.model, self.parameters())
        return self._cost

    def release(self) -> None:
        """Free this view's part of a model that it shares with other views; this class shares nothing."""

    def save(self, folder: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer in Hugging Face layout."""
        self._check_no_adapters()
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def _check_no_adapters(self) -> None:
        if self.adapters is not None:
            raise ValueError("a base with adapters is neither copied nor saved: do that before adding them")

    def move(self, device: torch.device | str) -> None:
        """Move the weights to a device, and compute as suits it."""
        self.model.to(device)
        self._suit_device()

    def _suit_device(self) -> None:
        on_gpu, dtype = self.device.type == "cuda", next(self.model.parameters()).dtype
        self.fuses_scores = on_gpu  # by ``arena.lm.fused_scores``
        self.decodes_on_device = on_gpu and self.shares_prefix  # by ``arena.lm.decoding.device_decoding``
        self.batches: object = None  # what that keeps with the weights
        self.packs_by_spans = self.shares_prefix and has_kernel(self.device, dtype, *heads(self.model.config))

    @property
    def device(self) -> torch.device:
        """The device that holds the weights."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def plan(
        self, prompts: Sequence[Tokens], continuations: Sequence[Sequence[Tokens]], max_tokens: int
    ) -> list[Chunk]:
        """Return ``plan_chunks`` of the prompts, with shared prefixes if this model's attention supports them."""
        return plan_chunks(prompts, continuations, max_tokens, share=self.shares_prefix)

    def plan_choice(self, prompts: Sequence[Tokens], tries: Sequence[ReplyTrie], max_tokens: int) -> list[Chunk]:
        """Return the chunks of prompts and their tries for ``choice_logprobs``; each prompt is in one chunk.

        Only branching nodes are computed: a forced token has probability 1 under the mask.
        """
        return self.plan(prompts, [trie.prefixes or ((),) for trie in tries], max_tokens)

    @property
    def gains_by_packing(self) -> bool:
        """Whether choices take less time in packed passes."""
        return self.shares_prefix and bool(self.model.config.hidden_size >= PACKED_WIDTH)

    def plan_choice_packs(
        self, prompts: Sequence[Tokens], tries: Sequence[ReplyTrie], max_tokens: int
    ) -> list[Chunk] | list[Pack]:
        """Return what ``plan_choice`` does, or, for a model that is wide enough to gain by it, several chunks a pass.

        Then prefixes are read in the pass of what follows them, and nothing is padded.
        """
        if not self.gains_by_packing:
            return self.plan_choice(prompts, tries, max_tokens)
        continuations = [trie.prefixes or ((),) for trie in tries]
        return join_chunks(plan_chunks(prompts, continuations, max_tokens, cost=GROUP_COST), max_tokens)

    def choice_logprobs(self, chunk: Chunk | Pack, tries: Sequence[ReplyTrie], temperature: float) -> ChoiceLogprobs:
        """Return the masked log-probs of a chunk's legal replies; ``tries`` are those given to ``plan_choice``."""
        logits = self.run_pack(chunk).logits[0] if isinstance(chunk, Pack) else self.run(chunk, 1).logits[:, 0]
        return choice_logprobs(tempered(logits, temperature), [tries[i] for i in chunk.items])

    def run_pack(self, pack: Pack, **options: Any) -> Any:
        """Return the model's output, with logits at the last token of each suffix.  # [1, N, V]"""
        layout = lay_out_ends(pack, self.device, by_spans=self.packs_by_spans)
        self.cost.add(*tokens_of(pack.chunks), len(layout.scored))
        return self.forward(**packed_inputs(layout, layout.scored) | options)

    def run_with_prefix(self, chunk: Chunk) -> tuple[Tensor, dict[str, Any]]:
        """Return the logits [N, V] of a chunk that runs in one pass with its prefix, and the ``prefix_inputs``."""
        output, length = self.run_pack(Pack((chunk,)), use_cache=True), len(chunk.prefix)
        layers = output.past_key_values.layers
        kept = [(layer.keys[:, :, :length].contiguous(), layer.values[:, :, :length].contiguous()) for layer in layers]
        return output.logits[0], {"shared_prefix": kept}

    def reply_logits(self, chunk: Chunk, replies: Sequence[Tokens]) -> Tensor:
        """Return logits [R, T, V] of a chunk of ``plan(prompts, [(reply,), ...])``.

        Position t scores token t of a row's reply; T is the length of the chunk's longest reply. Shorter replies are
        aligned left, and the positions behind them are meaningless.
        """
        lengths = [len(replies[i]) for i in chunk.items]
        longest = max(lengths)
        logits = self.run(chunk, longest + 1).logits[:, :-1]  # [R, T, V], replies aligned right
        shift = to_device([longest - n for n in lengths], logits.device)
        source = (torch.arange(longest, device=logits.device)[None] + shift[:, None]) % longest
        aligned: Tensor = logits.gather(1, source[:, :, None].expand_as(logits))
        return aligned

    def forward(self, **inputs: Any) -> Any:
        """Return the model's output. Every pass goes through this method, which switches off other views' adapters."""
        if self.adapters is not None:
            if (own := self.adapters.passes_for(inputs)) is not None:
                return own(None, **inputs)
            self.adapters.activate(None)
        elif (plain := self.plain_pass()) is not None and plain.takes(inputs):
            return plain(**inputs)
        return self.model(**inputs)

    def prompt_states(self, prompts: Sequence[Tokens], max_tokens: int) -> Tensor:
        """Return the last hidden state at each prompt's last token.  # [N, H]"""
        states: list[Tensor | None] = [None] * len(prompts)
        for chunk in self.plan(prompts, [((),)] * len(prompts), max_tokens):
            last = self.run(chunk, 1, output_hidden_states=True).hidden_states[-1][:, -1]  # padding is on the left
            for index, state in zip(chunk.items, last, strict=True):
                states[index] = state
        return torch.stack([state for state in states if state is not None])

    def run(
        self, chunk: Chunk, keep: int, cache: Any = None, prefix_inputs: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        """Return the model's output, with logits at the last ``keep`` positions of each suffix.  # [N, keep, V]

        The shared prefix runs once, and gradients flow through it; with ``prefix_inputs``, which that method returned
        for this prefix, it does not run again. Keys and values of the suffixes go into ``cache`` if one is given.
        """
        ids, positions, mask = self.inputs(chunk)
        self.cost.add(*tokens_of([chunk], prefixes=False), sum(min(keep, len(s)) for s in chunk.suffixes))
        return self.forward(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
            logits_to_keep=min(keep, ids.shape[1]),
            **(self.prefix_inputs(chunk.prefix) if prefix_inputs is None else prefix_inputs),
            **options,
        )

    def prefix_inputs(self, prefix: Tokens) -> dict[str, Any]:
        """Run a prefix; return the model's arguments that put its input behind this prefix."""
        if not prefix:
            return {}
        ids = to_device([prefix], self.device)
        self.cost.add(*tokens_of([Chunk(prefix, (), ())]), 0)
        if self.plain_pass() is not None:
            return {"shared_prefix": self.forward(input_ids=ids, only_keys=True)}
        cache = self.forward(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
        return {"shared_prefix": [(layer.keys, layer.values) for layer in cache.layers]}

    def plain_pass(self) -> PlainPass | None:
        """Return the passes that compute without ``transformers``' modules, where they suit."""
        return self.plain if self.plain is not None and self.adapters is None and self.plain.suits() else None

    def inputs(self, chunk: Chunk) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return ids [N, S], padded on the left, positions [N, S] and the mask of tokens [N, S] (None: no padding)."""
        width = max(map(len, chunk.suffixes))
        pads = [width - len(suffix) for suffix in chunk.suffixes]
        ids = to_device([[0] * pad + list(s) for pad, s in zip(pads, chunk.suffixes, strict=True)], self.device)
        pad = to_device(pads, self.device)[:, None]  # [N, 1]
        columns = torch.arange(width, device=self.device)[None]
        positions = (columns - pad).clamp(min=0) + len(chunk.prefix)
        return ids, positions, (columns >= pad).long() if any(pads) else None


def _check_size(folder: Path) -> None:
    """Raise UsageError for a folder whose files are too small for the weights that its configuration claims.

    ``transformers`` would make those first, and compare them with the files' then.
    """
    held = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if not held:
        return  # a hub id, or a folder that has no weights, which is told in other words
    with torch.device("meta"):  # without memory
        claimed = AutoModelForCausalLM.from_config(read_config(folder), trust_remote_code=False)
    weights = sum(weight.numel() for weight in claimed.parameters())
    if weights > MOST_WEIGHTS * held:
        raise UsageError(
            f"{folder / 'config.json'} claims a model of {weights:,} weights, but the weights' files have {held:,} "
            "bytes. Restore them, or the configuration, from a copy."
        )
