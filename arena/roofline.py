"""What a model takes and what a card could do with it at most: bytes held, FLOPs, bytes moved. Pure arithmetic.

The roofline of Williams, Waterman & Patterson (doi 10.1145/1498765.1498785): FLOPs over the peak or bytes over the
bandwidth. Counted are the products with weights and those of attention, as in ``arena.flops``, and keys and values.
Nothing is said of launches, waiting, and kernels that reach less than the peak, so a measured rate is below it.

Letters: W weights of the layers, V those of the head, N replies in flight, c tokens of a reply's context, L layers,
h heads of width d, k bytes of a token's keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

CONTEXT = 512  # tokens, of which half are a prompt's
RANK = 32
ADAM_BYTES = 30  # a trained weight in a step: its master, gradient and both moments read, three written, bfloat16 too
PASS_BYTES = 2 * 3 + 2 + 2 + 4 + 4  # in a pass: read thrice, its gradient written, read, and added in single precision
TRAINED_BYTES = 12  # held for a trained weight beside the model: its gradient and both moments in single precision
MASTER_BYTES = 4  # and its single-precision copy, where the model is in lower precision
NORMALISES_QUERIES = frozenset({"qwen3", "olmo2", "gemma3", "gemma3_text"})  # and keys, before they are compared
# Logits that exist at once, and tensors of that size: ``arena.lm.fused_scores`` on a GPU, ``arena.lm.logprobs`` else.
LOGITS = {True: (1 << 28, 3), False: (1 << 25, 5)}


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
    tied: bool = True  # the head is the table of embeddings too

    @classmethod
    def of(cls, name: str, config: Mapping[str, Any]) -> Shape:
        """Return the shape that a model's ``config.json`` states. Raises KeyError for one that is no such decoder."""
        text = config.get("text_config", config)
        heads = text["num_attention_heads"]
        return cls(
            name,
            text["hidden_size"],
            text["num_hidden_layers"],
            heads,
            text.get("num_key_value_heads") or heads,
            text.get("head_dim") or text["hidden_size"] // heads,
            text["intermediate_size"],
            text["vocab_size"],
            text.get("model_type", ""),
            bool(text.get("tie_word_embeddings", False)),
        )

    @property
    def layer_weights(self) -> int:
        """Weights of all layers' products, which each token passes once."""
        attention = 2 * self.hidden * self.head_width * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head_weights(self) -> int:
        """Weights of the output head."""
        return self.hidden * self.vocabulary

    @property
    def weights(self) -> int:
        """All weights of products and embeddings; those of norms are a ten-thousandth of them."""
        return self.layer_weights + self.head_weights * (1 if self.tied else 2)

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
KNOWN = {  # models that are planned with before they are on this machine, by their id on the hub
    "HuggingFaceTB/SmolLM2-135M-Instruct": SMOLLM2,
    "Qwen/Qwen3-0.6B": QWEN3_06B,
    "Qwen/Qwen3-1.7B": Shape("Qwen3-1.7B", 2048, 28, 16, 8, 128, 6144, 151_936),
    "Qwen/Qwen3-4B": QWEN3_4B,
    "Qwen/Qwen3-4B-Base": QWEN3_4B._replace(name="Qwen3-4B-Base"),
    "Qwen/Qwen3-8B": Shape("Qwen3-8B", 4096, 36, 32, 8, 128, 12_288, 151_936, tied=False),
    "Qwen/Qwen3-14B": Shape("Qwen3-14B", 5120, 40, 40, 8, 128, 17_408, 151_936, tied=False),
    "Qwen/Qwen3-32B": Shape("Qwen3-32B", 5120, 64, 64, 8, 128, 25_600, 151_936, tied=False),
}


class Card(NamedTuple):
    """A card as its maker describes it."""

    name: str
    flops: float  # of dense bfloat16 products with sums in single precision, a second
    bandwidth: float  # bytes/s
    memory: float  # bytes


CARDS = (
    Card("RTX 4090", 165.2e12, 1.008e12, 24e9),
    Card("A100 80 GB", 312e12, 2.039e12, 80e9),
    Card("H100 SXM", 989.4e12, 3.35e12, 80e9),
    Card("H200", 989.4e12, 4.8e12, 141e9),
)


class Work(NamedTuple):
    """What a number of tokens takes."""

    tokens: int
    flops: float
    bytes: float  # of memory that is read and written
    held: float  # bytes of memory that must be there

    def seconds(self, card: Card) -> float:
        """Return the seconds at least."""
        return max(self.flops / card.flops, self.bytes / card.bandwidth)

    def rate(self, card: Card) -> float:
        """Return tokens/s at most."""
        return self.tokens / self.seconds(card)

    def bound(self, card: Card) -> str:
        """Return what bounds it on a card."""
        return "products" if self.flops / card.flops > self.bytes / card.bandwidth else "memory bandwidth"


def token_flops(shape: Shape, context: float, *, head: float = 1.0) -> float:
    """Return 2 (W + head V) + 4 L h d c: a forward pass of one token; ``head``: the share that is scored."""
    attention = 4 * shape.layers * shape.heads * shape.head_width * context
    return 2 * (shape.layer_weights + head * shape.head_weights) + attention


def decoding(shape: Shape, replies: int, context: int = CONTEXT) -> Work:
    """Return one new token of N replies: all weights are read once, and each reply's keys and values."""
    cached = replies * context * shape.kv_bytes()
    read = 2.0 * shape.weights + cached
    return Work(replies, replies * token_flops(shape, context), read, read)


def prefilling(shape: Shape, prompts: int, length: int = CONTEXT // 2) -> Work:
    """Return reading N prompts, of each of which one token is scored."""
    tokens = prompts * length
    flops = tokens * token_flops(shape, (length + 1) / 2, head=1 / length)
    cached = tokens * shape.kv_bytes()
    return Work(tokens, flops, 2.0 * shape.weights + cached, 2.0 * shape.weights + cached)


def updating(
    shape: Shape, tokens: int, *, lora: bool, checkpointing: bool, context: int = CONTEXT, rank: int = RANK
) -> Work:
    """Return one step on one pass of so many tokens, half of them scored.

    A trained weight takes three forward passes, a frozen one two, and checkpointing one more.
    """
    forward = tokens * token_flops(shape, (context + 1) / 2, head=0.5)
    frozen = 2.0 * tokens * shape.layer_weights + tokens * shape.head_weights if lora else 0.0
    flops = (4.0 if checkpointing else 3.0) * forward - frozen
    trained = shape.adapter_weights(rank) if lora else shape.weights
    flops += 6.0 * tokens * trained if lora else 0.0
    moved = trained * (ADAM_BYTES + PASS_BYTES) + (2.0 * 2 * shape.weights if lora else 0.0)
    held = 2.0 * shape.weights + 16.0 * trained
    if checkpointing:
        held += 2.0 * tokens * shape.hidden * shape.layers
    return Work(tokens, flops, moved, held)


def state_bytes(shape: Shape, *, rank: int | None, bytes_each: int) -> float:
    """Return what a learner holds between steps, gradients included: the model, and 12 or 16 bytes a trained weight.

    ``rank`` of an adapter, which is in single precision; None: all weights are trained.
    """
    model = float(bytes_each * shape.weights)
    if rank is not None:
        return model + (TRAINED_BYTES + MASTER_BYTES) * shape.adapter_weights(rank)
    return model + (TRAINED_BYTES + (MASTER_BYTES if bytes_each < 4 else 0)) * shape.weights


def gathered_bytes(shape: Shape, *, bytes_each: int) -> float:
    """Return what shards gather for a pass: one layer and the table of embeddings, and the gradients of both."""
    return 2.0 * bytes_each * (shape.layer_weights / shape.layers + shape.head_weights)


def pass_bytes(
    shape: Shape,
    tokens: int,
    scored: int,
    *,
    lora: bool,
    full: bool,
    checkpointing: bool,
    bytes_each: int,
    on_gpu: bool,
) -> float:
    """Return what one pass holds beside the state.

    A layer keeps what its backward pass needs; with checkpointing its input, and one layer all of that at a time.
    Logits exist for some tokens at once. With ``full`` weights that are not shards, the gradients of the table of
    embeddings and of the head exist once more while they are added.
    """
    layer = kept_bytes(shape, tokens, bytes_each, lora=lora)
    kept = layer + shape.layers * tokens * bytes_each * shape.hidden if checkpointing else shape.layers * layer
    most, tensors = LOGITS[on_gpu]
    logits = 4.0 * tensors * min(scored * shape.vocabulary, max(most, shape.vocabulary))
    return kept + logits + (2.0 * bytes_each * shape.head_weights if full else 0.0)


def kept_bytes(shape: Shape, tokens: int, bytes_each: int, *, lora: bool) -> float:
    """Return what one layer keeps of so many tokens for its backward pass.

    That is what it makes, and where it normalises queries and keys, these once more and in single precision. An adapter
    takes its layer's input in single precision; a frozen layer keeps no input, and a frozen norm no normalised state.
    """
    queries = shape.heads * shape.head_width
    normalised = queries + shape.kv_heads * shape.head_width if shape.family in NORMALISES_QUERIES else 0
    numbers = normalised * (MASTER_BYTES + bytes_each)
    if lora:
        numbers -= bytes_each * (2 * shape.hidden + normalised)
        if bytes_each < MASTER_BYTES:
            numbers += MASTER_BYTES * (5 * shape.hidden + queries + shape.intermediate)
            numbers -= bytes_each * (2 * shape.hidden + queries + shape.intermediate)
    return layer_bytes(shape, tokens, bytes_each) + float(tokens * numbers)


def layer_bytes(shape: Shape, tokens: int, bytes_each: int) -> float:
    """Return what one layer makes of so many tokens: 6 states, 5 tensors of queries, 4 of its feed-forward part."""
    return tokens * bytes_each * (6 * shape.hidden + 5 * shape.heads * shape.head_width + 4 * shape.intermediate)


def reply_bytes(shape: Shape, tokens: int, *, bytes_each: int, on_gpu: bool) -> float:
    """Return what an engine holds for a reply of so many tokens: keys and values, on a CPU twice, as rows are moved."""
    return float(shape.kv_bytes(bytes_each) * tokens * (1 if on_gpu else 2))
