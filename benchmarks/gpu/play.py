"""Free replies by the torch engine's decoder: prompts read, tokens written, the share of what the device allows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from arena.lm.chunks import Tokens
from arena.lm.decoding.decode import generate
from arena.lm.language_model import LanguageModel
from arena.roofline import QWEN3_06B, QWEN3_4B, RANK, SMOLLM2, Card, Shape, decoding
from benchmarks.gpu.session import Report, Setup
from benchmarks.gpu.shapes import TINY, random_model
from benchmarks.gpu.timing import forget_peak, kernel_shares, peak_memory, seconds

SYSTEM, POSITION, WRITTEN = 100, 156, 128  # tokens of a prompt that all share, of its own, of a reply
ADAPTERS = 8
MAX_BATCH_TOKENS = 8192  # of prompts in one pass, as the engine has it


class Sizes(NamedTuple):
    """What is played."""

    shapes: tuple[Shape, ...]
    in_flight: tuple[int, ...]
    written: int


SIZES = Sizes((QWEN3_06B, QWEN3_4B, SMOLLM2), (256, 1024, 64), WRITTEN)
TINY_SIZES = Sizes((TINY,), (8,), 4)


def measure(setup: Setup, report: Report) -> None:
    """Store prefill and decode by shape and replies in flight, without shared prefixes, and with several adapters."""
    sizes = TINY_SIZES if setup.tiny else SIZES
    for shape in sizes.shapes:
        if report.affords(f"play/{shape.name}"):
            with report.telling_of_failures(f"play/{shape.name}"):
                _measure_shape(shape, sizes, setup, report)


def _measure_shape(shape: Shape, sizes: Sizes, setup: Setup, report: Report) -> None:
    lm, first = random_model(shape, setup.device, "float32" if setup.tiny else "bfloat16"), sizes.in_flight[0]
    for number in sizes.in_flight:
        for shared in (True, False) if number == first else (True,):
            key = f"play/{shape.name}/{number}" + ("" if shared else "/unshared")
            if report.affords(key):
                with report.telling_of_failures(key):
                    lm.shares_prefix = shared
                    _measure(lm, shape, key, number, sizes.written, setup, report)
    lm.shares_prefix = True
    key = f"play/{shape.name}/{first}/{ADAPTERS} adapters"
    if report.affords(key):
        with report.telling_of_failures(key):
            _measure_adapters(lm, key, first, sizes.written, setup, report)


def _measure(
    lm: LanguageModel, shape: Shape, key: str, number: int, written: int, setup: Setup, report: Report
) -> None:
    prompts = prompts_of(number, shape.vocabulary)
    forget_peak(setup.device)
    first = seconds(lambda: write(lm, prompts, written), setup.device)  # allocates, and captures graphs
    write(lm, prompts, 1)
    reading = seconds(lambda: write(lm, prompts, 1), setup.device)
    whole = seconds(lambda: write(lm, prompts, written), setup.device)
    tokens, read = number * (written - 1), sum(map(len, prompts))
    rate = tokens / max(whole - reading, 1e-9)
    report.case(key=f"{key}/prefill", tokens_per_second=read / reading)
    share = None
    if report.limits:
        card = Card("this one", report.limits["product_flops"], report.limits["copy_bytes"], 0.0)
        share = rate / decoding(shape, number, len(prompts[0]) + written // 2).rate(card)
    kernels = kernel_shares(lambda: write(lm, prompts, min(written, 16)), setup.device)
    report.case(
        key=f"{key}/decode",
        tokens_per_second=rate,
        share_of_limit=share,
        seconds_of_first=first,
        seconds_of_next=whole,
        peak_memory=peak_memory(setup.device),
        kernels=kernels,
    )


def _measure_adapters(lm: LanguageModel, key: str, number: int, written: int, setup: Setup, report: Report) -> None:
    """Store the rate of replies by several adapters on one base, one after another, and on a GPU in one batch."""
    try:
        from arena.lm.lora import Adapters, AdapterShape

        adapters = Adapters(lm, "base")
        views = [adapters.add(AdapterShape(4 if setup.tiny else RANK), seed) for seed in range(ADAPTERS)]
    except ImportError:
        report.note(f"{key}: not measured, because peft is not installed.")
        return
    prompts = prompts_of(number, lm.model.config.vocab_size)
    parts = [prompts[i::ADAPTERS] for i in range(ADAPTERS)]

    def play() -> None:
        for view, part in zip(views, parts, strict=True):
            view.end_token = -1
            write(view, part, written)

    def together() -> None:
        players = [view for view, part in zip(views, parts, strict=True) for _ in part]
        write(players, [prompt for part in parts for prompt in part], written)

    for way, run in (("in turn", play), ("together", together)):
        for view in views:
            view.decodes_on_device = way == "together" or lm.decodes_on_device
        run()  # allocates, and captures graphs
        spent = seconds(run, setup.device)
        report.case(key=f"{key} {way}", tokens_per_second=number * written / spent)


def write(lm: LanguageModel | Sequence[LanguageModel], prompts: list[Tokens], tokens: int) -> None:
    """Answer every prompt with so many tokens."""
    rngs = [random.Random(i) for i in range(len(prompts))]
    generate(lm, prompts, rngs, temperature=1.0, max_tokens=tokens, max_batch_tokens=MAX_BATCH_TOKENS)


def prompts_of(number: int, vocabulary: int) -> list[Tokens]:
    """Return prompts that begin alike, as one role's prompts do."""
    rng = random.Random(0)
    system = tuple(rng.choices(range(vocabulary), k=SYSTEM))
    return [system + tuple(rng.choices(range(vocabulary), k=POSITION)) for _ in range(number)]
