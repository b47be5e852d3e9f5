"""The shapes of the measured models, the size of their weights, and random models of these shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel


class Shape(NamedTuple):
    """A decoder with grouped-query attention and a gated feed-forward layer."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    intermediate: int
    vocabulary: int
    family: str = "qwen3"  # or llama

    @property
    def layer_weights(self) -> int:
        """Weights of all layers' products, which each token passes once."""
        attention = 2 * self.hidden * self.head_width * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head_weights(self) -> int:
        """Weights of the output head, which is the table of embeddings too."""
        return self.hidden * self.vocabulary

    @property
    def weights(self) -> int:
        """All weights of products and embeddings; those of norms are a ten-thousandth of them."""
        return self.layer_weights + self.head_weights

    def adapter_weights(self, rank: int) -> int:
        """Weights of a LoRA adapter of all linear layers but the head."""
        queries, keys = self.heads * self.head_width, self.kv_heads * self.head_width
        ends = [(self.hidden, queries), (self.hidden, keys), (self.hidden, keys), (queries, self.hidden)]
        ends += [(self.hidden, self.intermediate)] * 2 + [(self.intermediate, self.hidden)]
        return self.layers * rank * sum(inner + outer for inner, outer in ends)

    def kv_bytes(self, bytes_each: int = 2) -> int:
        """Bytes of one token's keys and values."""
        return 2 * self.layers * self.kv_heads * self.head_width * bytes_each


SMOLLM2 = Shape("SmolLM2-135M", 576, 30, 9, 3, 64, 1536, 49_152, "llama")
QWEN3_06B = Shape("Qwen3-0.6B", 1024, 28, 16, 8, 128, 3072, 151_936)
QWEN3_4B = Shape("Qwen3-4B", 2560, 36, 32, 8, 128, 9728, 151_936)
TINY = Shape("tiny", 64, 2, 4, 2, 16, 128, 400)
MODELS = (SMOLLM2, QWEN3_06B, QWEN3_4B)


def random_model(shape: Shape, device: str, dtype: str) -> LanguageModel:
    """Return a model with random weights and a tokenizer that serves no text; its replies never end."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    from arena.lm.language_model import LanguageModel
    from arena.lm.pocket import train_tokenizer

    kinds = {"qwen3": (Qwen3Config, Qwen3ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}
    settings, kind = kinds[shape.family]
    config = settings(
        vocab_size=shape.vocabulary,
        tie_word_embeddings=True,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_width,
        max_position_embeddings=32_768,
    )
    config.dtype = getattr(torch, dtype)
    with torch.random.fork_rng(devices=[]), torch.device(device):
        torch.manual_seed(0)
        model = kind(config).to(config.dtype)
    lm = LanguageModel(model.eval(), train_tokenizer(["nothing is read as text here"], 300))
    lm.end_token = -1
    return lm
