"""Two processes on one device, which play and learn side by side, and vLLM beside the torch engine, and asleep."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any, TypeVar

import torch

from arena.roofline import QWEN3_06B
from benchmarks.gpu.play import WRITTEN, prompts_of, write
from benchmarks.gpu.session import Report, Setup
from benchmarks.gpu.shapes import TINY, random_model
from benchmarks.gpu.timing import seconds
from benchmarks.gpu.update import Case, game_length_batch, policy_of, step_of

SECONDS, SECONDS_TINY = 8.0, 0.2  # of each rate
REPLIES, ROWS = 256, 256
MEASURED_ASLEEP = 512  # longest prompt and reply
Measured = TypeVar("Measured")
START_SECONDS = 600.0  # in which both processes must have started to work


def two_processes(setup: Setup, report: Report) -> None:
    """Store the rates of play and of updates alone, and of both at once in their own processes."""
    span = SECONDS_TINY if setup.tiny else SECONDS
    rates = {name: _alone(make, setup, span) for name, make in WORKS.items()}
    report.add(alone=rates)
    context = multiprocessing.get_context("spawn")
    results: Queue[tuple[str, float]] = context.Queue()
    barrier = context.Barrier(len(WORKS))
    children = [context.Process(target=_child, args=(name, setup, span, barrier, results)) for name in WORKS]
    try:
        for child in children:
            child.start()
        together = dict(next_result(results, children) for _ in children)
    finally:
        for child in children:
            child.kill()
            child.join()
    report.add(together=together, shares={name: together[name] / rates[name] for name in rates})


def next_result(results: Queue[tuple[str, Measured]], children: Sequence[BaseProcess]) -> tuple[str, Measured]:
    """Return what the next process measured. Raises RuntimeError if one of them has died."""
    while True:
        try:
            return results.get(timeout=1.0)
        except Empty:
            if died := [child.exitcode for child in children if child.exitcode]:
                raise RuntimeError(f"one of the processes ended with status {died[0]}") from None


def _play(setup: Setup) -> tuple[Callable[[], object], int]:
    """Return a round of replies, and the tokens that it writes."""
    shape, number, written = (TINY, 8, 4) if setup.tiny else (QWEN3_06B, REPLIES, WRITTEN)
    lm = random_model(shape, setup.device, "float32" if setup.tiny else "bfloat16")
    prompts = prompts_of(number, shape.vocabulary)
    return partial(write, lm, prompts, written), number * written


def _update(setup: Setup) -> tuple[Callable[[], object], int]:
    """Return an update, and the tokens that it reads."""
    case = Case(TINY, False, False, 512, 8) if setup.tiny else Case(QWEN3_06B, False, True, 8192, ROWS)
    policy = policy_of(case, setup)
    assert policy is not None, "all weights need no PEFT"
    batch = game_length_batch(case.rows, case.shape.vocabulary)
    return step_of(policy, batch, case.tokens), sum(len(row.prompt) + len(row.reply) for row in batch.free)


WORKS = {"play": _play, "update": _update}


def _alone(make: Callable[[Setup], tuple[Callable[[], object], int]], setup: Setup, span: float) -> float:
    """Return the tokens/s of work that has the device for itself."""
    run, tokens = make(setup)
    run()
    return _rate(run, tokens, setup, span)


def _rate(run: Callable[[], object], tokens: int, setup: Setup, span: float) -> float:
    start, done = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < span or not done:
        seconds(run, setup.device)
        done += tokens
    return done / max(elapsed, time.perf_counter() - start)


def _child(name: str, setup: Setup, span: float, barrier: Any, results: Queue[tuple[str, float]]) -> None:
    torch.set_num_threads(1)
    run, tokens = WORKS[name](setup)
    run()
    barrier.wait(START_SECONDS)
    results.put((name, _rate(run, tokens, setup, span)))


def beside_vllm(setup: Setup, report: Report) -> None:
    """Store what ``benchmarks.speed.vllm_engine`` measures here, and, on a GPU, what sleep takes and frees."""
    command = [sys.executable, "-m", "benchmarks.speed.vllm_engine", "--json"]
    try:
        process = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=max(report.left, 1.0))
    except subprocess.TimeoutExpired:
        report.note("Not measured: it took longer than this part's time.")
        return
    report.add(figures=json.loads(process.stdout))
    if setup.device.startswith("cuda") and report.affords("sleep"):
        report.add(sleep=_asleep(setup))


def _asleep(setup: Setup) -> dict[str, float]:
    """Return the seconds in which vLLM falls asleep and plays again, and the bytes that it gives back meanwhile."""
    from arena.samplers.vllm_lm import VllmLM
    from arena.samplers.vllm_shape import VllmShape
    from benchmarks.speed.vllm_engine import play_matches

    lm = random_model(QWEN3_06B, "cpu", "bfloat16")
    lm.end_token = 1
    with tempfile.TemporaryDirectory() as folder:
        lm.save(Path(folder))
        engine = VllmLM(None, lm, VllmShape(adapters=False, max_model_len=MEASURED_ASLEEP, kv_gib=4.0, sleep=True))
        engine.register("lm", folder)
        try:
            play_matches(engine, REPLIES, WRITTEN)  # starts it
            awake = seconds(lambda: play_matches(engine, REPLIES, WRITTEN), setup.device)
            before = torch.cuda.mem_get_info()[0]
            falling = seconds(engine.sleep, setup.device)
            freed = torch.cuda.mem_get_info()[0] - before
            woken = seconds(lambda: play_matches(engine, REPLIES, WRITTEN), setup.device)
        finally:
            engine.close()
    return {"seconds_to_sleep": falling, "seconds_to_wake": woken - awake, "bytes_freed": float(freed)}
