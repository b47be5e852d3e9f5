"""Tokens per second of the arena over Ray with two workers, beside the sum of two workers that play alone.

    python -m benchmarks.ray_speed [--matches N] [--repeats N] [--json]

A small language model plays Leduc poker with itself in free replies, each time with new weights, as in an iteration of
training; what takes the time is the sampling of tokens. Alone, a process plays half of the matches at once, by the
scheduler and without Ray, while the other one rests; "beside" is the same with both at work, which tells what the
machine takes from two at once (its cores may be threads of one). Over Ray, two workers with engines of their own are
sent the weights and given pieces. All have one thread each. They take turns, and the ratios are taken within a turn;
seconds are those of the clock, so the machine should be idle and have two cores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch

from arena.cluster import Post
from arena.lm import LanguageModel
from arena.pool import Pool, Posts
from arena.ray_pool import RayCluster
from arena.records import Episode, MatchRequest, family
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from games.registry import make_game
from games.seeds import derive_seed
from league.cluster import Spread
from league.cluster_host import Worker
from league.config import RunConfig
from league.parcels import Base, saved_files
from league.prepared import prepared_process
from league.settings import run_roles, validate
from league.start import start_policies

GAME = "leduc_poker"
CONFIG: dict[str, Any] = {
    "games": {GAME: {}},
    "roles": {"reply": "free", "on_illegal": "forfeit", "max_reply_tokens": 16},
    "model": {"hidden_size": 256, "layers": 4, "intermediate_size": 512},
    "cold_start": {"steps": 0},
}


def self_play(matches: int) -> list[MatchRequest]:
    """Return matches of the model with itself."""
    return [
        MatchRequest(i, GAME, derive_seed(i, "deal"), derive_seed(i, "sample"), ("main", "main"), (True, True))
        for i in range(matches)
    ]


def tokens_of(episodes: Sequence[Episode]) -> int:
    """Return the prompt and reply tokens of all replies."""
    traces = [turn.trace for one in family(episodes) for turn in one.turns if turn.trace is not None]
    return sum(len(trace.prompt_ids) + len(trace.reply_ids) for trace in traces)


@cache
def engine_of(folder: str) -> TorchLM:
    """Return the engine of a process that plays alone."""
    engine = TorchLM()
    engine.add("main", LanguageModel.load(folder))
    return engine


def alone(folder: str, config: RunConfig, requests: Sequence[MatchRequest]) -> float:
    """Return the tokens per second of a process that plays without Ray, as if its weights were new."""
    engine, roles = engine_of(folder), run_roles(config)
    engine.forget()
    with prepared_process(1):
        started = time.perf_counter()
        episodes = play(
            requests,
            roles_of=roles.__getitem__,
            engine_of=lambda player: engine,
            make_game=make_game,
            in_flight=config.in_flight,
        )
        return tokens_of(episodes) / (time.perf_counter() - started)


def over_ray(venue: Spread, pool: Pool, lm: LanguageModel, requests: Sequence[MatchRequest]) -> float:
    """Return the tokens per second of a pool that is sent new weights first."""
    with torch.no_grad():
        next(iter(lm.parameters().values())).add_(1e-6)
    venue.engine.forget()
    before, started = pool.tokens, time.perf_counter()
    venue.play(requests)
    return (pool.tokens - before) / (time.perf_counter() - started)


def measure(matches: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return min, median and max over the repeats of both, and of the ratio."""
    config = validate(CONFIG)
    requests = self_play(matches)
    lm = start_policies(config, run_roles(config))["main"].lm
    rates: dict[str, list[float]] = {name: [] for name in ("alone", "beside", "ray", "ratio", "ratio_beside")}
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        RayCluster("local", 2) as cluster,
        ProcessPoolExecutor(1, context) as first,
        ProcessPoolExecutor(1, context) as second,
    ):
        lm.save(Path(folder))
        base = Base("", cluster.put(saved_files(lm)))
        worker = Post("worker", Worker, (config, base, False, 1.0), 1.0)
        pool = Pool(cluster, Posts(worker, 2), matches=None)
        venue = Spread(pool, cluster)
        venue.engine.add("main", lm)
        halves = list(zip((first, second), (requests[::2], requests[1::2]), strict=True))
        for number in range(1 + repeats):
            apart = sum(one.submit(alone, folder, config, half).result() for one, half in halves)
            both = [one.submit(alone, folder, config, half) for one, half in halves]
            beside = sum(one.result() for one in both)
            together = over_ray(venue, pool, lm, requests)
            if number:  # the first time is for imports and caches
                rates["alone"].append(apart)
                rates["beside"].append(beside)
                rates["ray"].append(together)
                rates["ratio_beside"].append(together / beside)
                rates["ratio"].append(together / apart)
        pool.close()
    return {
        name: {"min": min(values), "median": statistics.median(values), "max": max(values)}
        for name, values in rates.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matches", type=int, default=4096, help="matches in one repeat")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    result = measure(arguments.matches, arguments.repeats)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, figures in result.items():
        form = ",.3f" if name.startswith("ratio") else ",.0f"
        print(f"{name:14}" + "".join(f"{figures[key]:>12{form}}" for key in ("min", "median", "max")))


if __name__ == "__main__":
    main()
