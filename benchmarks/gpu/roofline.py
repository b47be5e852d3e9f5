"""The table of what play and updates could reach at most on a card, beside what was measured there.

The formulas are those of ``arena.roofline``, which `league plan` reads too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena.roofline import CARDS, QWEN3_06B, QWEN3_4B, SMOLLM2, Card, Shape, Work, decoding, prefilling, updating

MODELS = (SMOLLM2, QWEN3_06B, QWEN3_4B)


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
