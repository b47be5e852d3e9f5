"""The embedded model ``pocket``: a small Qwen3-shaped decoder and a tokenizer trained on game text.

Nothing is downloaded: ``transformers`` builds the model from a configuration, ``tokenizers`` trains a
byte-level BPE on prompts of random matches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from arena.lm.language_model import LanguageModel

END, PAD = "<|end|>", "<|pad|>"


class PocketShape(NamedTuple):
    """Sizes of the pocket model; at the defaults about 0.3 M parameters and the embeddings."""

    hidden_size: int = 128
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    intermediate_size: int = 256
    vocabulary: int = 2048
    context: int = 1024


def build_pocket(texts: Iterable[str], shape: PocketShape, seed: int) -> LanguageModel:
    """Return an untrained pocket model with a tokenizer trained on ``texts``.

    ``seed`` fixes the initial weights; torch's global generator is left as it was.
    """
    tokenizer = train_tokenizer(texts, shape.vocabulary)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.hidden_size // shape.heads,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        initializer_range=0.05,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        model = Qwen3ForCausalLM(config)
    return LanguageModel(model.eval(), tokenizer)


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer, which encodes any text, and the games' lines in few tokens.

    Merges may cross spaces but not line ends, so that with enough vocabulary a row of a board or a
    whole instruction becomes one token. A pocket model reads nothing but its games, and with prompts of 5
    tokens rather than 100 it trains in minutes.
    """
    bpe = Tokenizer(models.BPE())
    lines = pre_tokenizers.Split(Regex(r"[^\n]*\n|[^\n]+"), behavior="isolated")
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [lines, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(sorted(set(texts)), trainer)  # sorted and unique, so that the order of play does not matter
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=PAD, model_input_names=["input_ids", "attention_mask"]
    )
