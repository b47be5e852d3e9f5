"""Checks that a device agrees with a CPU in log-probs and gradients, and learner with sampler in log-probs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from arena.lm.chunks import Tokens
from arena.lm.decoding.decode import generate
from arena.lm.language_model import LanguageModel
from arena.lm.logprobs import ScoreOptions
from arena.lm.scoring import plan_passes
from arena.roofline import RANK, SMOLLM2
from benchmarks.gpu.play import MAX_BATCH_TOKENS, prompts_of
from benchmarks.gpu.session import Report, Setup
from benchmarks.gpu.shapes import TINY, random_model

PROMPTS, WRITTEN = 8, 16
ADAPTERS = 4
MOST_APART = {"float32": 1e-4}  # nats a token; bfloat16 is what it is
MOST_ASKEW = {"float32": 1e-3}  # of a gradient, relative to its norm


def measure(setup: Setup, report: Report) -> None:
    """Store the greatest distances of log-probs, in nats a token, and the relative distances of gradients."""
    shape = TINY if setup.tiny else SMOLLM2
    prompts = prompts_of(PROMPTS, shape.vocabulary)
    rng = random.Random(1)
    replies = [tuple(rng.choices(range(shape.vocabulary), k=WRITTEN)) for _ in prompts]
    on_cpu = random_model(shape, "cpu", "float32")
    expected, slope = scores(on_cpu, prompts, replies), gradient(on_cpu, prompts, replies)
    for dtype in ("float32", "bfloat16"):
        lm = random_model(shape, "cpu", dtype)
        lm.model.load_state_dict(on_cpu.model.state_dict())  # generators differ from device to device
        lm.move(setup.device)
        apart = {"CPU against device": (scores(lm, prompts, replies) - expected).abs().max().item()}
        askew = ((gradient(lm, prompts, replies) - slope).norm() / slope.norm()).item()
        if lm.packs_by_spans:
            lm.packs_by_spans = False
            apart["CPU against device, in rows"] = (scores(lm, prompts, replies) - expected).abs().max().item()
            lm.packs_by_spans = True
        apart["sampler against learner"] = _sampled_apart([lm] * len(prompts), prompts)
        apart["sampler against learner, adapters together"] = _adapters_apart(lm, prompts, setup)
        report.add(**{f"{name}/{dtype}": found for name, found in apart.items()}, **{f"gradient/{dtype}": askew})
        for name, found in apart.items():
            if found > MOST_APART.get(dtype, float("inf")):
                report.note(f"{name}, {dtype}: {found:.2e} nats apart, more than {MOST_APART[dtype]:.0e}.")
        if askew > MOST_ASKEW.get(dtype, float("inf")):
            report.note(f"gradient, {dtype}: {askew:.2e} of its norm apart, more than {MOST_ASKEW[dtype]:.0e}.")


@torch.no_grad()
def scores(lm: LanguageModel, prompts: Sequence[Tokens], replies: Sequence[Tokens]) -> Tensor:
    """Return the learner's log-probs of replies of one length.  # [N, T], on the CPU"""
    return _scores(lm, prompts, replies)


def gradient(lm: LanguageModel, prompts: Sequence[Tokens], replies: Sequence[Tokens]) -> Tensor:
    """Return the gradient of the replies' summed log-probs by all weights, side by side.  # [weights], on the CPU"""
    lm.model.requires_grad_(True)
    _scores(lm, prompts, replies).sum().backward()
    slopes = [weight.grad.float().cpu().flatten() for weight in lm.model.parameters() if weight.grad is not None]
    lm.model.zero_grad(set_to_none=True)
    lm.model.requires_grad_(False)
    return torch.cat(slopes)


def _scores(lm: LanguageModel, prompts: Sequence[Tokens], replies: Sequence[Tokens]) -> Tensor:
    found: dict[int, Tensor] = {}
    for replies_pass in plan_passes(lm, prompts, replies, MAX_BATCH_TOKENS):
        rows = replies_pass.scores(lm, ScoreOptions()).logprobs.float().cpu()
        found |= dict(zip(replies_pass.items, rows, strict=True))
    return torch.stack([found[i] for i in range(len(replies))])


def _sampled_apart(players: Sequence[LanguageModel], prompts: Sequence[Tokens]) -> float:
    """Return how far the log-probs that were sampled with are from the learner's, at most."""
    rngs = [random.Random(i) for i in range(len(prompts))]
    sampled = generate(players, prompts, rngs, temperature=1.0, max_tokens=WRITTEN, max_batch_tokens=MAX_BATCH_TOKENS)
    apart = 0.0
    for player in dict.fromkeys(players):
        mine = [i for i, other in enumerate(players) if other is player]
        again = scores(player, [prompts[i] for i in mine], [sampled[i].reply_ids for i in mine])
        apart = max(apart, (again - torch.tensor([sampled[i].logprobs for i in mine])).abs().max().item())
    return apart


def _adapters_apart(lm: LanguageModel, prompts: Sequence[Tokens], setup: Setup) -> float:
    """Return the same for several adapters with random weights on one base, all in one batch."""
    from arena.lm.lora import Adapters, AdapterShape

    adapters = Adapters(lm, "base")
    views = [adapters.add(AdapterShape(4 if setup.tiny else RANK), seed) for seed in range(ADAPTERS)]
    generator = torch.Generator().manual_seed(2)
    for view in views:
        view.end_token = -1
        view.decodes_on_device = True
        for name, weight in view.model.named_parameters():
            if "lora_B" in name:
                weight.data.copy_(0.02 * torch.randn(weight.shape, generator=generator))
    return _sampled_apart([views[i % ADAPTERS] for i in range(len(prompts))], prompts)
