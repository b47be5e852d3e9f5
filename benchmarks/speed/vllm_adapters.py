"""Adapters in vLLM: the gap of its log-probs to those of ``transformers`` with PEFT, and the cost of many adapters.

Both are parts of ``benchmarks.speed.vllm_engine``. Untrained adapters would change nothing, so their weights are drawn
at random. The compared adapters, and the base, play in one batch. ``transformers`` reads every reply by itself with its
eager attention, under the mask that vLLM sampled with.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters, AdapterShape
from arena.records import Episode, TokenTrace
from arena.samplers.vllm_lm import VllmLM
from arena.samplers.vllm_shape import VllmShape
from benchmarks.speed.sampler import GAME, pocket_model
from benchmarks.speed.workload import match_requests, play_all
from games.registry import make_game
from roles.cards import load_roles, with_overrides
from roles.role import ReplyForm

ADAPTERS, SLOTS, COMPARED = 64, 4, 8
RANK = 8
FREE_TOKENS = 3  # in a reply: matches are short, and adapters change often
FORMS: dict[str, dict[str, Any]] = {
    "choice": {},
    "free": {"reply": "free", "on_illegal": "forfeit", "max_reply_tokens": FREE_TOKENS},
}


def measure(folder: Path, repeats: int) -> dict[str, list[float]]:
    """Return the largest gaps in nats by reply form, and the times of few and many adapters in seconds, by repeat."""
    pocket_model().save(folder / "base")
    base = LanguageModel.load(folder / "base")
    names = _save_adapters(base, folder)
    shape = VllmShape(adapters=True, max_loras=SLOTS, max_lora_rank=RANK, max_model_len=512, kv_gib=1.0)
    engine = VllmLM(folder / "base", base, shape)
    for name in ("base", *names):
        engine.register(name, folder / name)
    figures = {f"gap_{form}": [_largest_gap(engine, folder, ["base", *names[:COMPARED]], form)] for form in FORMS}
    figures |= {"few": [], "many": [], "many_to_few": []}
    for repeat in range(repeats + 1):
        few, many = (_round_robin(engine, names[:count]) for count in (SLOTS, ADAPTERS))
        if repeat:  # the first warms up
            for key, seconds in (("few", few), ("many", many), ("many_to_few", many / few)):
                figures[key].append(seconds)
    engine.close()
    return figures


def _save_adapters(base: LanguageModel, folder: Path) -> list[str]:
    adapters, names = Adapters(base, str(folder / "base")), [f"adapter{number}" for number in range(ADAPTERS)]
    for seed, name in enumerate(names):
        view = adapters.add(AdapterShape(rank=RANK, alpha=2.0 * RANK), seed)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in view.parameters().values():
                weight.normal_(std=0.3, generator=generator)
        view.save(folder / name)
        view.release()
    return names


def _play(engine: VllmLM, pairs: Sequence[tuple[str, ...]], form: str) -> list[Episode]:
    """Play a match of each pair, all in flight at once."""
    roles = tuple(with_overrides(role, **FORMS[form]) for role in load_roles(make_game(GAME).spec))
    return play_all(match_requests(GAME, pairs), roles, engine)


def _round_robin(engine: VllmLM, names: Sequence[str]) -> float:
    """Return the seconds of as many matches as all adapters have pairs, played by pairs of ``names``."""
    count = len(names)
    pairs = [(names[a % count], names[b % count]) for a, b in itertools.combinations(range(ADAPTERS), 2)]
    engine.refresh()
    started = time.perf_counter()
    _play(engine, pairs, ReplyForm.FREE.value)
    return time.perf_counter() - started


def _largest_gap(engine: VllmLM, folder: Path, names: Sequence[str], form: str) -> float:
    """Return the largest difference in nats between vLLM's log-prob of a token and that of ``transformers``."""
    pairs = list(itertools.product(names, repeat=2))
    turns = [turn.trace for episode in _play(engine, pairs, form) for turn in episode.turns if turn.trace]
    gaps: list[float] = []
    for name in names:
        model: Any = AutoModelForCausalLM.from_pretrained(folder / "base", attn_implementation="eager").eval()
        if name != "base":
            model = PeftModel.from_pretrained(model, str(folder / name)).eval()
        for trace in [trace for trace in turns if trace.snapshot == name]:
            gaps += [abs(a - b) for a, b in zip(trace.logprobs, _reference_logprobs(engine, model, trace), strict=True)]
    return max(gaps)


@torch.no_grad()
def _reference_logprobs(engine: VllmLM, model: Any, trace: TokenTrace) -> list[float]:
    """Return the log-prob of each token of a reply under its mask.  # [T]"""
    ids, reply = torch.tensor([[*trace.prompt_ids, *trace.reply_ids]]), trace.reply_ids
    rows = model(input_ids=ids).logits[0, len(trace.prompt_ids) - 1 : -1].log_softmax(-1)
    if trace.mask is not None:
        for index, row in enumerate(rows):
            paths = engine.tokenizer.trie(trace.mask).tokens
            allowed = sorted({path[index] for path in paths if path[:index] == reply[:index]})
            row[allowed] = row[allowed].log_softmax(-1)
    return [float(row[token]) for row, token in zip(rows, reply, strict=True)]
