"""The effect of training in games on a pretrained model's language: how far it has moved on ordinary prompts.

On a set that ships with the project and never changes: KL(policy | untrained) in nats a token, over the tokens of plain
answers to plain prompts, exact over the vocabulary; the mean log-likelihood of a text, in nats a token; and the
perplexity of several. With ``evaluation.language_tasks`` also small tasks (``small_tasks``). A player that improved
while none of these moved much still speaks; one whose KL has risen by nats does not.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from arena.lm.chunks import Tokens
from arena.lm.language_model import LanguageModel
from arena.lm.lora import AdapterLM
from league.config import RunConfig
from league.population.evaluation.small_tasks import score_tasks, small_tasks, task_shares
from league.population.models.source import model_folder

TEXTS = Path(__file__).with_suffix(".toml")
MAX_TOKENS = 512  # in one pass: each position has a row of the whole vocabulary


def language_metrics(config: RunConfig, policies: Mapping[str, LanguageModel]) -> dict[str, float]:
    """Return ``POLICY/language_kl``, ``language_logprob``, ``language_perplexity`` and ``language_tasks/KIND/WAY`` of
    policies on a pretrained model.

    Policies trained from scratch have none, and nobody has if ``evaluation.language`` is off. A full model's untrained
    weights are read again from their source.
    """
    metrics: dict[str, float] = {}
    loaded: dict[str, LanguageModel] = {}
    for name, lm in policies.items():
        model = config.model_of(name)
        if model.source == "pocket" or not config.evaluation.language:
            continue
        if isinstance(lm, AdapterLM):
            untrained = lm.untrained()
        else:
            if model.source not in loaded:
                folder = model_folder(model.source)
                loaded[model.source] = LanguageModel.load(folder, device=str(lm.device), dtype=model.dtype)
            untrained = loaded[model.source]
        metrics[f"{name}/language_kl"] = kl_of_answers(lm, untrained)
        text, *others = [token_logprobs(lm, passage) for passage in passages()]
        metrics[f"{name}/language_logprob"] = fmean(text)
        metrics[f"{name}/language_perplexity"] = perplexity_of(text, *others)
        if number := config.evaluation.language_tasks:
            shares = task_shares(score_tasks(lm, small_tasks(number)))
            metrics |= {f"{name}/language_tasks/{task}": share for task, share in shares.items()}
    return metrics


@torch.no_grad()
def kl_of_answers(lm: LanguageModel, untrained: LanguageModel) -> float:
    """Return KL(lm | untrained) in nats a token, over all tokens of the answers."""
    exchanges = _texts()["exchange"]
    prompts = [lm.encode_prompt([{"role": "user", "content": exchange["prompt"]}]) for exchange in exchanges]
    answers = [lm.encode_reply(exchange["answer"]) for exchange in exchanges]
    divergences: list[float] = []
    for chunk in lm.plan(prompts, [(answer,) for answer in answers], MAX_TOKENS):
        logprobs, reference = (
            view.reply_logits(chunk, answers).float().log_softmax(-1) for view in (lm, untrained)
        )  # [R, T, V]
        by_token = (logprobs.exp() * (logprobs - reference)).sum(-1)  # [R, T]
        for row, item in zip(by_token.tolist(), chunk.items, strict=True):
            divergences += row[: len(answers[item])]
    return fmean(divergences)


def perplexity(lm: LanguageModel) -> float:
    """Return the perplexity a token of all passages: exp of the mean of -log p, each token given those before it."""
    return perplexity_of(*(token_logprobs(lm, passage) for passage in passages()))


def perplexity_of(*logprobs: Sequence[float]) -> float:
    """Return the perplexity a token of passages whose tokens have these log-probabilities."""
    return exp(-fmean(chain.from_iterable(logprobs)))


def passages() -> list[str]:
    """Return the plain texts that no run is trained on; ``language_logprob`` is that of the first."""
    return [_texts()["text"], *_texts()["passages"]]


@torch.no_grad()
def token_logprobs(lm: LanguageModel, text: str) -> list[float]:
    """Return the log-probability of each token of a text but its first, in nats."""
    first, *following = lm.encode_reply(text.strip())[:-1]  # without an end: the text does not answer anything
    tokens: Tokens = tuple(following)
    (chunk,) = lm.plan([(first,)], [(tokens,)], len(tokens) + 1)
    logprobs = lm.reply_logits(chunk, [tokens])[0].float().log_softmax(-1)  # [T, V]
    return [float(one) for one in logprobs.gather(1, torch.tensor(tokens, device=logprobs.device)[:, None])[:, 0]]


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(TEXTS.read_text(encoding="utf-8"))
