"""Generated tokens per second of the arena over vLLM beside ``llm.generate`` on the same prompts, all at once.

    .venv-vllm/bin/python -m benchmarks.speed.vllm_engine [--matches N] [--tokens N] [--repeats N] [--json]

This runs in the environment that ``make test-vllm`` builds; ``benchmarks.speed.vllm_adapters`` follows in the same run.
The matches are of Kuhn poker with free replies, all in flight at once; the model is untrained, so nearly every match
ends with its first reply, and ``llm.generate`` gets the prompts of all turns. Two engines of equal settings, each in
processes of its own, take turns; the ratio is taken within a turn. Rates are per second of the clock, since most of
the time is the engines'.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena.records import Episode
from arena.samplers.vllm_lm import VllmLM
from arena.samplers.vllm_shape import VllmShape
from benchmarks.speed import vllm_adapters
from benchmarks.speed.sampler import GAME, pocket_model
from benchmarks.speed.timing import print_figures, speed_parser, spread
from benchmarks.speed.workload import match_requests, play_all
from games.registry import make_game
from roles.cards import load_roles, with_overrides

LENGTH = 512  # tokens of a prompt and its reply
KV_GIB = 1.0


def play_matches(engine: VllmLM, matches: int, tokens: int) -> list[Episode]:
    """Play Kuhn poker in free replies with all matches in flight."""
    roles = tuple(
        with_overrides(role, reply="free", on_illegal="forfeit", max_reply_tokens=tokens)
        for role in load_roles(make_game(GAME).spec)
    )
    return play_all(match_requests(GAME, [("lm", "lm")] * matches), roles, engine)


def plain_engine(folder: str) -> Any:
    """Return vLLM's ``LLM`` with the settings of this project's engine."""
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
            episodes = play_matches(engine, matches, tokens)
            traces = [turn.trace for episode in episodes for turn in episode.turns if turn.trace]
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
            plain = sum(len(output.outputs[0].token_ids) for output in outputs) / (time.perf_counter() - started)
            if repeat:  # the first warms both up
                for name, rate in (("arena", arena), ("generate", plain), ("ratio", arena / plain)):
                    rates[name].append(rate)
        engine.close()
    return rates


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--matches", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32, help="longest reply")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    rates = measure(options.matches, options.tokens, options.repeats)
    with tempfile.TemporaryDirectory() as folder:
        rates |= vllm_adapters.measure(Path(folder), options.repeats)
    print_figures(spread(rates), "tokens/s, s", ",.6g", as_json=options.json)


if __name__ == "__main__":
    main()
