"""Checks that the device agrees with a CPU, and the learner's log-probs with the sampler's."""

from __future__ import annotations

import random

import torch

from arena.lm.decoding.decode import generate
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import ScoreOptions
from arena.lm.scoring import plan_passes
from arena.roofline import SMOLLM2
from benchmarks.gpu.play import MAX_BATCH_TOKENS, prompts_of
from benchmarks.gpu.session import Report, Setup
from benchmarks.gpu.shapes import TINY, random_model

PROMPTS, WRITTEN = 8, 16
MOST_APART = {"float32": 1e-4}  # nats a token; bfloat16 is what it is


def measure(setup: Setup, report: Report) -> None:
    """Store the greatest distances of log-probs, in nats a token."""
    shape = TINY if setup.tiny else SMOLLM2
    prompts = prompts_of(PROMPTS, shape.vocabulary)
    rng = random.Random(1)
    replies = [tuple(rng.choices(range(shape.vocabulary), k=WRITTEN)) for _ in prompts]
    on_cpu = random_model(shape, "cpu", "float32")
    expected = scores(on_cpu, prompts, replies)
    for dtype in ("float32", "bfloat16"):
        lm = random_model(shape, "cpu", dtype)
        lm.model.load_state_dict(on_cpu.model.state_dict())  # generators differ from device to device
        lm.move(setup.device)
        distance = (scores(lm, prompts, replies) - expected).abs().max().item()
        report.add(**{f"cpu_against_device/{dtype}": distance})
        sampled = generate(
            lm,
            prompts,
            [random.Random(i) for i in range(len(prompts))],
            temperature=1.0,
            max_tokens=WRITTEN,
            max_batch_tokens=MAX_BATCH_TOKENS,
        )
        again = scores(lm, prompts, [reply.reply_ids for reply in sampled])
        recorded = torch.tensor([reply.logprobs for reply in sampled])
        gap = (again - recorded).abs().max().item()
        report.add(**{f"sampler_against_learner/{dtype}": gap})
        for name, found in (("CPU against device", distance), ("sampler against learner", gap)):
            if found > MOST_APART.get(dtype, float("inf")):
                report.note(f"{name}, {dtype}: {found:.2e} nats apart, more than {MOST_APART[dtype]:.0e}.")


@torch.no_grad()
def scores(lm: LanguageModel, prompts: list[tuple[int, ...]], replies: list[tuple[int, ...]]) -> torch.Tensor:
    """Return the learner's log-probs of replies of one length.  # [N, T], on the CPU"""
    found = torch.zeros(len(replies), len(replies[0]))
    for replies_pass in plan_passes(lm, prompts, replies, MAX_BATCH_TOKENS):
        found[list(replies_pass.items)] = replies_pass.scores(lm, ScoreOptions()).logprobs.float().cpu()
    return found
