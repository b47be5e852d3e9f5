"""Random models of the measured shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arena.roofline import Shape

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel

TINY = Shape("tiny", 64, 2, 4, 2, 16, 128, 400)


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
