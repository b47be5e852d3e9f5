"""Adapters that matter on small models, and what they say of a few prompts with a common beginning."""

import torch

from arena.lm.lora import AdapterShape

SYSTEM = tuple(range(50, 250))
PROMPTS = [(*SYSTEM, 5, 6, 7), (*SYSTEM, 9), (*SYSTEM, 11, 12, 13, 14)]
REPLIES = [(21, 22, 23), (24,), (25, 26)]
SHAPE = AdapterShape(rank=4, alpha=8.0)


def scrambled(view, seed=1):
    """Give an adapter weights that matter, B included."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in view.parameters().values():
            weight.normal_(std=0.3)
    return view


def logits(view, prompts=PROMPTS, replies=REPLIES):
    """Return all replies' logits; the prompts' common beginning runs once."""
    with torch.no_grad():
        return [view.reply_logits(chunk, replies) for chunk in view.plan(prompts, [(r,) for r in replies], 8192)]


def logprobs(view, prompts=PROMPTS, replies=REPLIES):
    """Return each reply's log-probs, one list a reply."""
    with torch.no_grad():
        rows = {}
        for chunk in view.plan(prompts, [(r,) for r in replies], 8192):
            scores = view.reply_logits(chunk, replies).log_softmax(-1)
            for row, item in enumerate(chunk.items):
                rows[item] = [float(scores[row, t, token]) for t, token in enumerate(replies[item])]
    return [rows[i] for i in range(len(replies))]


def same(first, second):
    return all(map(torch.equal, first, second))
