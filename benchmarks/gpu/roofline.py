"""What play and updates could reach at most on a card: FLOPs over its peak or bytes over its bandwidth.

The roofline of Williams, Waterman & Patterson (doi 10.1145/1498765.1498785). Counted are the products with weights and
those of attention, as in ``arena.flops``, weights and keys and values in bfloat16. Nothing is said of launches,
waiting, and kernels that reach less than the peak, so a measured figure is below it.

Letters: W weights of the layers, V those of the head, N replies in flight, c tokens of a reply's context, L layers,
h heads of width d, k bytes of a token's keys and values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu.shapes import MODELS, Shape

CONTEXT = 512  # tokens, of which half are a prompt's
RANK = 32
ADAM_BYTES = 30  # a trained weight in a step: its master, gradient and both moments read, three written, bfloat16 too
PASS_BYTES = 2 * 3 + 2 + 2 + 4 + 4  # in a pass: read thrice, its gradient written, read, and added in single precision


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

    def rate(self, card: Card) -> float:
        """Return tokens/s at most."""
        return self.tokens / max(self.flops / card.flops, self.bytes / card.bandwidth)


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


def updating(shape: Shape, tokens: int, *, lora: bool, checkpointing: bool, context: int = CONTEXT) -> Work:
    """Return one step on one pass of so many tokens, half of them scored.

    A trained weight takes three forward passes, a frozen one two, and checkpointing one more.
    """
    forward = tokens * token_flops(shape, (context + 1) / 2, head=0.5)
    frozen = 2.0 * tokens * shape.layer_weights + tokens * shape.head_weights if lora else 0.0
    flops = (4.0 if checkpointing else 3.0) * forward - frozen
    trained = shape.adapter_weights(RANK) if lora else shape.weights
    flops += 6.0 * tokens * trained if lora else 0.0
    moved = trained * (ADAM_BYTES + PASS_BYTES) + (2.0 * 2 * shape.weights if lora else 0.0)
    held = 2.0 * shape.weights + 16.0 * trained
    if checkpointing:
        held += 2.0 * tokens * shape.hidden * shape.layers
    return Work(tokens, flops, moved, held)


class RooflineLine(NamedTuple):
    """One line of the table; ``key`` finds what was measured in the stored figures."""

    model: str
    what: str
    work: Work
    key: str


def lines(models: Iterable[Shape] = MODELS) -> list[RooflineLine]:
    """Return the table's lines: play by replies in flight, then updates by kind and tokens in a pass."""
    found = []
    for shape in models:
        found.append(
            RooflineLine(shape.name, "read 64 prompts", prefilling(shape, 64), f"play/{shape.name}/64/prefill")
        )
        for replies in (64, 256, 1024):
            key = f"play/{shape.name}/{replies}/decode"
            found.append(RooflineLine(shape.name, f"write, {replies:,} in flight", decoding(shape, replies), key))
        for lora, tokens in ((True, 8192), (True, 32_768), (False, 8192)):
            for checkpointing in (False, True) if tokens == 8192 else (True,):
                weights, kept = "LoRA" if lora else "full", ", checkpointed" if checkpointing else ""
                work = updating(shape, tokens, lora=lora, checkpointing=checkpointing)
                key = f"update/{shape.name}/{weights}{'/checkpointed' if checkpointing else ''}/{tokens}"
                found.append(RooflineLine(shape.name, f"update {weights}, {tokens:,}{kept}", work, key))
    return found


def table(measured: Mapping[str, Mapping[str, float]], cards: Sequence[Card] = CARDS) -> str:
    """Return the table in Markdown; ``measured`` are tokens/s by key, by the name of a card."""
    heads = ["model", "work", "GFLOP a token", "GB moved", "GB held", *(card.name for card in cards), "measured"]
    rows = [heads, ["---", "---", *["---:"] * (3 + len(cards)), "---"]]
    for line in lines():
        work = line.work
        rates = ["does not fit" if work.held > card.memory else f"{work.rate(card):,.0f}" for card in cards]
        figures = [f"{rates[line.key]:,.0f} ({name})" for name, rates in measured.items() if line.key in rates]
        size = [f"{work.flops / work.tokens / 1e9:.2f}", f"{work.bytes / 1e9:.1f}", f"{work.held / 1e9:.1f}"]
        rows.append([line.model, line.what, *size, *rates, "; ".join(figures) or "not measured"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def measured_rates(folder: Path) -> dict[str, dict[str, float]]:
    """Return the stored tokens/s by card and by key; nothing where no card was measured."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(folder.glob("*.json")):
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cases = [case for part in stored["parts"].values() for case in part.get("cases", [])]
        rates = {case["key"]: case["tokens_per_second"] for case in cases if "tokens_per_second" in case}
        found[stored["device"]["name"]] = rates
    return found
