"""The learner's update on packed rows of game length: tokens/s, MFU, memory, and which kernels take the time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from arena.flops import COUNTED
from arena.lm.chunks import Tokens
from arena.lm.compiled import compile_between_products
from arena.lm.language_model import LanguageModel
from arena.lm.scoring import enable_checkpointing
from arena.roofline import QWEN3_06B, QWEN3_4B, RANK, SMOLLM2, Shape
from benchmarks.gpu.session import Report, Setup
from benchmarks.gpu.shapes import TINY, random_model
from benchmarks.gpu.timing import best_seconds, forget_peak, kernel_shares, peak_memory, seconds
from learners.batching import Draw, FreeRow, TrainBatch
from learners.losses.objective import Objective, Surrogate
from learners.parallel.process_group import SINGLE_PROCESS, ProcessGroup
from learners.update.learner import StepSettings, update
from learners.update.policy import Policy

SYSTEM, POSITION = 100, 100  # tokens of a prompt that all share, and those of its own
MEDIAN, LONGEST, SPREAD = 64, 256, 0.8  # of replies' log-normal lengths
REPEATS = 3


class Case(NamedTuple):
    """One kind of update."""

    shape: Shape
    lora: bool
    checkpointing: bool
    tokens: int  # in one pass
    rows: int
    compiled: bool = False  # norms and gates

    @property
    def key(self) -> str:
        """Where the roofline finds it."""
        kept = "/checkpointed" if self.checkpointing else ""
        compiled = "/compiled" if self.compiled else ""
        return f"update/{self.shape.name}/{'LoRA' if self.lora else 'full'}{kept}/{self.tokens}{compiled}"


CASES = (
    Case(QWEN3_4B, True, True, 8192, 64),
    Case(QWEN3_06B, False, True, 32_768, 256),
    Case(QWEN3_06B, True, False, 8192, 128, compiled=True),
    Case(QWEN3_06B, True, False, 8192, 128),
    Case(QWEN3_06B, False, False, 8192, 128),
    Case(QWEN3_06B, True, True, 32_768, 256),
    Case(QWEN3_4B, True, False, 8192, 64),
    Case(SMOLLM2, True, False, 8192, 256),
    Case(SMOLLM2, False, False, 8192, 256),
    Case(QWEN3_06B, False, True, 8192, 128),
    Case(QWEN3_4B, True, True, 32_768, 128),
    Case(QWEN3_4B, False, True, 8192, 64),
)
TINY_CASES = (Case(TINY, False, True, 512, 8), Case(TINY, True, False, 512, 8))


def measure(setup: Setup, report: Report) -> None:
    """Store every case that there is time and memory for."""
    for case in TINY_CASES if setup.tiny else CASES:
        if report.affords(case.key):
            with report.telling_of_failures(case.key):
                _measure(case, setup, report)


def _measure(case: Case, setup: Setup, report: Report) -> None:
    policy = policy_of(case, setup)
    if policy is None:
        report.note(f"{case.key}: not measured, because peft is not installed.")
        return
    batch = game_length_batch(case.rows, case.shape.vocabulary)
    step = step_of(policy, batch, case.tokens)
    forget_peak(setup.device)
    first = seconds(step, setup.device)  # with trial passes, and compiling
    spent = best_seconds(step, setup.device, 1 if setup.tiny else REPEATS)
    before = COUNTED.total
    shares = kernel_shares(step, setup.device)
    flops = COUNTED.total - before
    tokens = sum(len(row.prompt) + len(row.reply) for row in batch.free)
    report.case(
        key=case.key,
        tokens_per_second=tokens / spent,
        mfu=flops / spent / report.limits["product_flops"] if report.limits else None,
        peak_memory=peak_memory(setup.device),
        pass_tokens=policy.pass_tokens or case.tokens,
        attention="lengths" if policy.lm.packs_by_spans else "rows",
        seconds_of_first=first,
        kernels=shares,
    )


def policy_of(case: Case, setup: Setup) -> Policy | None:
    """Return a policy of the case's shape; None for an adapter where PEFT is missing."""
    lm: LanguageModel = random_model(case.shape, setup.device, "float32" if setup.tiny else "bfloat16")
    if case.checkpointing:
        enable_checkpointing(lm.model)
    if case.compiled:
        compile_between_products(lm.model)
    if case.lora:
        try:
            from arena.lm.lora import Adapters, AdapterShape

            lm = Adapters(lm, "base").add(AdapterShape(4 if setup.tiny else RANK), seed=0)
        except ImportError:
            return None
    return Policy("main", lm, weight_decay=0.0, magnet=False)


def step_of(
    policy: Policy, batch: TrainBatch, tokens: int, processes: ProcessGroup = SINGLE_PROCESS
) -> Callable[[], object]:
    """Return an update of one step."""
    steps = StepSettings(learning_rate=1e-6, inner_steps=1, max_grad_norm=1.0, max_gap=math.inf, max_tokens=tokens)
    objective = Objective(Surrogate(), {})
    return lambda: update(policy, batch, objective, steps, processes)


def game_length_batch(rows: int, vocabulary: int) -> TrainBatch:
    """Return rows with prompts that begin alike, and replies of log-normal lengths."""
    rng = random.Random(0)
    system = tuple(rng.choices(range(vocabulary), k=SYSTEM))
    free = []
    for _ in range(rows):
        position = tuple(rng.choices(range(vocabulary), k=rng.randint(POSITION // 2, 3 * POSITION // 2)))
        length = min(LONGEST, max(1, round(math.exp(rng.gauss(math.log(MEDIAN), SPREAD)))))
        reply: Tokens = tuple(rng.choices(range(vocabulary), k=length))
        gain = rng.choice((0.0, 1.0)) / rows
        draw = Draw(0, (0.0,) * length, 1.0, gain, gain - 1 / rows)
        row = FreeRow("game", "game", system + position, reply, 1.0, 1.0, 1 / rows, gain, gain - 1 / rows, (draw,))
        free.append(row)
    return TrainBatch("main", (), tuple(free), rows, ("main",))
