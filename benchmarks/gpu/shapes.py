"""Random models of the measured shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arena.roofline import Shape

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel

TINY = Shape("tiny", 64, 2, 4, 2, 16, 128, 400)


def config_of(shape: Shape) -> Any:
    """Return the configuration (``transformers``) of models of a shape."""
    from transformers import LlamaConfig, Qwen3Config

    return {"qwen3": Qwen3Config, "llama": LlamaConfig}[shape.family](
        vocab_size=shape.vocabulary,
        tie_word_embeddings=True,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_width,
        max_position_embeddings=32_768,
        architectures=["Qwen3ForCausalLM" if shape.family == "qwen3" else "LlamaForCausalLM"],
    )


def textless_tokenizer() -> Any:
    """Return a tokenizer that serves no text."""
    from arena.lm.pocket import train_tokenizer

    return train_tokenizer(["nothing is read as text here"], 300)


def random_model(shape: Shape, device: str, dtype: str) -> LanguageModel:
    """Return a model with random weights and a tokenizer that serves no text; its replies never end."""
    import torch
    import transformers

    from arena.lm.language_model import LanguageModel

    config = config_of(shape)
    config.dtype = getattr(torch, dtype)
    with torch.random.fork_rng(devices=[]), torch.device(device):
        torch.manual_seed(0)
        model = getattr(transformers, config.architectures[0])(config).to(config.dtype)
    lm = LanguageModel(model.eval(), textless_tokenizer())
    lm.end_token = -1
    return lm
