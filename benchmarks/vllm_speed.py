"""Generated tokens per second of the arena over vLLM beside ``llm.generate`` on the same prompts, all at once.

    .venv-vllm/bin/python -m benchmarks.vllm_speed [--matches N] [--tokens N] [--repeats N] [--json]

Runs in the environment that ``make test-vllm`` builds; ``benchmarks.vllm_adapters`` follows in the same run. Matches of
Kuhn poker with free replies, all in flight at once; the model is untrained, so nearly every match ends with its first
reply, and ``llm.generate`` is given the prompts of all turns. Two engines of equal settings, each in processes of its
own, take turns; the ratio is taken within a turn. Rates are per second of the clock, since most of the time is the
engines'.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena.records import Episode, MatchRequest
from arena.samplers.vllm import VllmShape
from arena.samplers.vllm_lm import VllmLM
from arena.scheduler import play
from benchmarks import vllm_adapters
from benchmarks.sampler_speed import GAME, pocket_model
from games.registry import make_game
from games.seeds import derive_seed
from roles.cards import load_roles, with_overrides

LENGTH = 512  # tokens of a prompt and its reply
KV_GIB = 1.0


def play_matches(engine: VllmLM, number: int, tokens: int) -> list[Episode]:
    """Play with all matches in flight."""
    roles = tuple(
        with_overrides(role, reply="free", on_illegal="forfeit", max_reply_tokens=tokens)
        for role in load_roles(make_game(GAME).spec)
    )
    requests = [
        MatchRequest(i, GAME, derive_seed(i, "deal"), derive_seed(i, "sample"), ("lm", "lm"), (True, True))
        for i in range(number)
    ]
    return play(requests, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game, in_flight=number)


def plain_engine(folder: str) -> Any:
    """Return ``LLM`` with the settings of our engine."""
    from vllm import LLM

    return LLM(
        model=folder,
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=LENGTH,
        kv_cache_memory_bytes=int(KV_GIB * 2**30),
        enforce_eager=True,
        enable_prefix_caching=True,
        enable_chunked_prefill=False,
        generation_config="vllm",
        logprobs_mode="processed_logprobs",
        disable_log_stats=True,
    )


def measure(matches: int, tokens: int, repeats: int) -> dict[str, list[float]]:
    """Return tokens/s of both systems, and the ratio, by repeat."""
    from vllm import SamplingParams

    lm = pocket_model()
    rates: dict[str, list[float]] = {"arena": [], "generate": [], "ratio": []}
    with tempfile.TemporaryDirectory() as folder:
        lm.save(Path(folder))
        llm = plain_engine(folder)
        engine = VllmLM(None, lm, VllmShape(adapters=False, max_model_len=LENGTH, kv_gib=KV_GIB))
        engine.register("lm", folder)
        for repeat in range(repeats + 1):
            started = time.perf_counter()
            traces = [turn.trace for one in play_matches(engine, matches, tokens) for turn in one.turns if turn.trace]
            arena = sum(len(trace.reply_ids) for trace in traces) / (time.perf_counter() - started)
            params = [
                SamplingParams(
                    max_tokens=tokens, seed=seed, logprobs=0, stop_token_ids=[lm.end_token], detokenize=False
                )
                for seed in range(len(traces))
            ]
            prompts = [{"prompt_token_ids": list(trace.prompt_ids)} for trace in traces]
            started = time.perf_counter()
            outputs = llm.generate(prompts, params, use_tqdm=False)
            plain = sum(len(one.outputs[0].token_ids) for one in outputs) / (time.perf_counter() - started)
            if repeat:  # the first warms both up
                for name, rate in (("arena", arena), ("generate", plain), ("ratio", arena / plain)):
                    rates[name].append(rate)
        engine.close()
    return rates


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matches", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32, help="longest reply")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    rates = measure(given.matches, given.tokens, given.repeats)
    with tempfile.TemporaryDirectory() as folder:
        rates |= vllm_adapters.measure(Path(folder), given.repeats)
    figures = {
        name: {"min": min(one), "median": statistics.median(one), "max": max(one)} for name, one in rates.items()
    }
    if given.json:
        print(json.dumps(figures))
        return
    for name, row in figures.items():
        print(f"{name:12}" + "".join(f"{key} {value:>12,.6g}  " for key, value in row.items()))


if __name__ == "__main__":
    main()
