"""Tokens per second of the arena over Ray with two workers, beside the sum of two workers that play alone.

    python -m benchmarks.speed.ray_cluster [--matches N] [--repeats N] [--json]

A small language model plays Leduc poker with itself in free replies, each time with new weights, as in an iteration of
training; most of the time goes to the sampling of tokens. "Alone": a process plays half of the matches at once, by the
scheduler and without Ray, while the other one is idle. "Beside": both play their halves at the same time, which shows
what the machine loses to two at once (its cores may be threads of one). Over Ray, two workers with engines of their own
get the weights and chunks of the matches. Each process has one thread. They take turns, and the ratios are taken within
a turn; seconds are those of the clock, so the machine should be idle and have two cores.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch

from arena.cluster.interface import WorkerSpec
from arena.cluster.match_pool import MatchPool, PoolSpec
from arena.cluster.ray_cluster import RayCluster
from arena.lm.language_model import LanguageModel
from arena.process import tuned_process
from arena.records import Episode, MatchRequest, flatten_episodes
from arena.samplers.torch_lm import TorchLM
from arena.scheduler import play
from benchmarks.speed.timing import Figures, print_figures, speed_parser, spread
from benchmarks.speed.workload import match_requests
from games.registry import make_game
from league.config import RunConfig
from league.config.context import run_context
from league.config.load import run_roles, validate
from league.training.backends.cluster import ClusterRollouts
from league.training.backends.cluster_workers import MatchWorker
from league.training.backends.weight_transfer import BaseWeights, saved_files
from league.training.learning.policies import start_policies

GAME = "leduc_poker"
CONFIG: dict[str, Any] = {
    "games": {GAME: {}},
    "roles": {"reply": "free", "on_illegal": "forfeit", "max_reply_tokens": 16},
    "model": {"hidden_size": 256, "layers": 4, "intermediate_size": 512},
    "cold_start": {"steps": 0},
}


def tokens_of(episodes: Sequence[Episode]) -> int:
    """Return the prompt and reply tokens of all replies."""
    traces = [turn.trace for episode in flatten_episodes(episodes) for turn in episode.turns if turn.trace is not None]
    return sum(len(trace.prompt_ids) + len(trace.reply_ids) for trace in traces)


@cache
def engine_of(folder: str) -> TorchLM:
    """Return the engine of a process that plays without Ray."""
    engine = TorchLM()
    engine.add("main", LanguageModel.load(folder))
    return engine


def alone(folder: str, config: RunConfig, requests: Sequence[MatchRequest]) -> float:
    """Return the tokens per second of a process that plays without Ray, with caches emptied as for new weights."""
    engine, roles = engine_of(folder), run_roles(config)
    engine.refresh()
    with tuned_process(1):
        started = time.perf_counter()
        episodes = play(
            requests,
            roles_of=roles.__getitem__,
            engine_of=lambda player: engine,
            make_game=make_game,
            in_flight=config.in_flight,
        )
        return tokens_of(episodes) / (time.perf_counter() - started)


def over_ray(rollouts: ClusterRollouts, pool: MatchPool, lm: LanguageModel, requests: Sequence[MatchRequest]) -> float:
    """Return the tokens per second of a pool that gets new weights first."""
    with torch.no_grad():
        next(iter(lm.parameters().values())).add_(1e-6)
    rollouts.engine.refresh()
    before, started = pool.tokens, time.perf_counter()
    rollouts.play(requests)
    return (pool.tokens - before) / (time.perf_counter() - started)


def measure(matches: int, repeats: int) -> Figures:
    """Return the tokens/s of all three, and the ratios."""
    config = validate(CONFIG)
    requests = match_requests(GAME, [("main", "main")] * matches)
    run = run_context(config, Path())
    policies = start_policies(run)
    lm = policies["main"].lm
    rates: dict[str, list[float]] = {name: [] for name in ("alone", "beside", "ray", "ratio", "ratio_beside")}
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        RayCluster("local", 2) as cluster,
        ProcessPoolExecutor(1, context) as first,
        ProcessPoolExecutor(1, context) as second,
    ):
        lm.save(Path(folder))
        base = BaseWeights("", cluster.put(saved_files(lm)), adapters=False)
        worker = WorkerSpec("worker", MatchWorker, (config, {"main": base}, 1.0, run.roles), 1.0, calls=2)
        pool = MatchPool(cluster, PoolSpec(worker, 2), chunk_size=None)
        rollouts = ClusterRollouts(pool, cluster, policies)
        rollouts.engine.add("main", lm)
        halves = list(zip((first, second), (requests[::2], requests[1::2]), strict=True))
        for number in range(1 + repeats):
            alone_rate = sum(process.submit(alone, folder, config, half).result() for process, half in halves)
            futures = [process.submit(alone, folder, config, half) for process, half in halves]
            beside_rate = sum(future.result() for future in futures)
            ray_rate = over_ray(rollouts, pool, lm, requests)
            if number:  # the first time is for imports and caches
                rates["alone"].append(alone_rate)
                rates["beside"].append(beside_rate)
                rates["ray"].append(ray_rate)
                rates["ratio_beside"].append(ray_rate / beside_rate)
                rates["ratio"].append(ray_rate / alone_rate)
        pool.close()
    return spread(rates)


def main() -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--matches", type=int, default=4096, help="matches in one repeat")
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    print_figures(measure(arguments.matches, arguments.repeats), "tokens/s", ",.0f", as_json=arguments.json)


if __name__ == "__main__":
    main()
