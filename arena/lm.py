"""A language model as play and learning both see it: text to tokens, tokens to log-probs.

One code path computes log-probs for sampler and learner, with gradients or without, so that the two
can only differ by rounding. Log-probs are in nats.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import Parameter
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from arena import prefix_attention
from arena.choice import ChoiceLogprobs, choice_logprobs
from arena.chunks import Chunk, Tokens, plan_chunks
from arena.wording import Wording, context_of, read_tokenizer, unreadable
from games.errors import UsageError
from roles.trie import ReplyTrie

if TYPE_CHECKING:
    from arena.adapters import Adapters

transformers_logging.disable_progress_bar()  # it would write over the run's own view


class LanguageModel(Wording):
    """A Hugging Face causal LM with its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__(tokenizer, context_of(model.config), type(model).__name__)
        self.model = model
        self.shares_prefix = prefix_attention.enable(model)
        self.adapters: Adapters | None = None  # those on this model's weights; this view plays without them

    @classmethod
    def load(cls, source: str | Path, *, device: str = "cpu", dtype: str = "float32") -> LanguageModel:
        """Load a folder in Hugging Face layout, or a hub id. Raises UsageError where there is none."""
        tokenizer = read_tokenizer(source)
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(str(source), dtype=getattr(torch, dtype))
        except (OSError, ValueError) as error:
            raise unreadable(source, error) from error
        return cls(model.to(device).eval(), tokenizer)

    def with_weights(self, folder: Path) -> LanguageModel:
        """Return a model of the same shape with the weights that ``save`` wrote, sharing this tokenizer.

        Raises UsageError, with the folder named, for weights of another shape.
        """
        model = self.copy().model.requires_grad_(False)
        weights: dict[str, Tensor] = {}
        for path in sorted(folder.glob("*.safetensors")):
            weights |= load_file(path)
        try:
            missing = model.load_state_dict(weights, strict=False).missing_keys
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise UsageError(f"The weights in {folder} do not fit the model they are loaded into: {reason}") from error
        lacking = sorted(set(missing) - _tied(model))
        if lacking:
            raise UsageError(
                f"The weights in {folder} lack {', '.join(lacking[:3])} of the model they are loaded into."
            )
        return LanguageModel(model, self.tokenizer)

    def copy(self) -> LanguageModel:
        """Return a model with weights of its own, equal to these, and the same tokenizer."""
        self._check_alone()
        model = copy.deepcopy(self.model)
        model.zero_grad(set_to_none=True)  # a copy has its own gradients too
        return LanguageModel(model, self.tokenizer)

    def frozen_copy(self) -> LanguageModel:
        """Return a model that keeps the weights of this moment, and is not trained."""
        frozen = self.copy()
        frozen.model.requires_grad_(False)
        return frozen

    def untrained(self) -> LanguageModel:
        """Return a model that keeps the weights from before training; called before it begins."""
        return self.frozen_copy()

    def parameters(self) -> dict[str, Parameter]:
        """Return what training changes, by name."""
        return dict(self.model.named_parameters())

    def release(self) -> None:
        """Free what this view holds in a model that it shares with others; this one shares nothing."""

    def save(self, folder: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer in Hugging Face layout."""
        self._check_alone()
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def _check_alone(self) -> None:
        if self.adapters is not None:
            raise ValueError("a base that adapters share is neither copied nor saved with them: do that before")

    @property
    def device(self) -> torch.device:
        """The device that holds the weights."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def plan(self, prompts: Sequence[Tokens], continuations: Sequence[Sequence[Tokens]], budget: int) -> list[Chunk]:
        """Return ``plan_chunks`` of the prompts; prefixes are shared if this model's attention can do that."""
        return plan_chunks(prompts, continuations, budget, share=self.shares_prefix)

    def plan_choice(self, prompts: Sequence[Tokens], tries: Sequence[ReplyTrie], budget: int) -> list[Chunk]:
        """Return the chunks in which ``choice_logprobs`` takes prompts with their tries; each prompt comes once.

        Only branching nodes are computed: a forced token has probability 1 under the mask.
        """
        return self.plan(prompts, [trie.prefixes or ((),) for trie in tries], budget)

    def choice_logprobs(self, chunk: Chunk, tries: Sequence[ReplyTrie], temperature: float) -> ChoiceLogprobs:
        """Return the masked log-probs of a chunk's legal replies; ``tries`` are those of the whole plan."""
        logits = self.run(chunk, 1).logits[:, 0].float() / temperature  # [N, V]
        return choice_logprobs(logits, [tries[i] for i in chunk.items])

    def reply_logits(self, chunk: Chunk, replies: Sequence[Tokens]) -> Tensor:
        """Return logits [R, T, V] of a chunk of ``plan(prompts, [(reply,), ...])``.

        Position t scores token t of a row's reply; T is the chunk's longest. Shorter replies are
        aligned left, with numbers of no meaning behind them.
        """
        lengths = [len(replies[i]) for i in chunk.items]
        longest = max(lengths)
        logits = self.run(chunk, longest + 1).logits[:, :-1]  # [R, T, V], replies aligned right
        shift = torch.tensor([longest - n for n in lengths], device=logits.device)
        source = (torch.arange(longest, device=logits.device)[None] + shift[:, None]) % longest
        aligned: Tensor = logits.gather(1, source[:, :, None].expand_as(logits))
        return aligned

    def forward(self, **inputs: Any) -> Any:
        """Return the model's output. Every pass goes through here, or another view's adapter may be in force."""
        if self.adapters is not None:
            self.adapters.activate(None)
        return self.model(**inputs)

    def prompt_states(self, prompts: Sequence[Tokens], budget: int) -> Tensor:
        """Return the last hidden state at each prompt's last token.  # [N, H]"""
        states: list[Tensor | None] = [None] * len(prompts)
        for chunk in self.plan(prompts, [((),)] * len(prompts), budget):
            last = self.run(chunk, 1, output_hidden_states=True).hidden_states[-1][:, -1]  # padding is on the left
            for place, state in zip(chunk.items, last, strict=True):
                states[place] = state
        return torch.stack([state for state in states if state is not None])

    def run(
        self, chunk: Chunk, keep: int, cache: Any = None, behind: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        """Return the model's output, with logits at the last ``keep`` positions of each suffix.  # [N, keep, V]

        The shared prefix runs once, and gradients flow through it; give what ``behind`` returned for it
        to use that again. Keys and values of the suffixes go into ``cache`` if one is given.
        """
        ids, positions, mask = self._inputs(chunk)
        return self.forward(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
            logits_to_keep=min(keep, ids.shape[1]),
            **(self.behind(chunk.prefix) if behind is None else behind),
            **options,
        )

    def behind(self, prefix: Tokens) -> dict[str, Any]:
        """Return the model's arguments that put its input behind a prefix."""
        if not prefix:
            return {}
        ids = torch.tensor([prefix], device=self.device)
        cache = self.forward(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
        return {"shared_prefix": [(layer.keys, layer.values) for layer in cache.layers]}

    def _inputs(self, chunk: Chunk) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return ids [N, S] padded on the left, positions [N, S] and the mask of real tokens [N, S] (None: all are)."""
        width = max(map(len, chunk.suffixes))
        pads = [width - len(suffix) for suffix in chunk.suffixes]
        ids = torch.tensor(
            [[0] * pad + list(s) for pad, s in zip(pads, chunk.suffixes, strict=True)], device=self.device
        )
        pad = torch.tensor(pads, device=self.device)[:, None]  # [N, 1]
        columns = torch.arange(width, device=self.device)[None]
        positions = (columns - pad).clamp(min=0) + len(chunk.prefix)
        return ids, positions, (columns >= pad).long() if any(pads) else None


def _tied(model: Any) -> set[str]:
    """Return the names of parameters that are another name of one that comes first."""
    return {n for n, _ in model.named_parameters(remove_duplicate=False)} - {n for n, _ in model.named_parameters()}
