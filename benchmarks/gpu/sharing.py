"""Two processes on one device, which play and learn side by side; shards over several; vLLM beside the torch engine."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from queue import Empty
from typing import Any

import torch

from benchmarks.gpu.play import WRITTEN, prompts_of, write
from benchmarks.gpu.session import Report, Setup
from benchmarks.gpu.shapes import QWEN3_06B, TINY, random_model
from benchmarks.gpu.timing import seconds
from benchmarks.gpu.update import Case, game_length_batch, policy_of, step_of

SECONDS, SECONDS_TINY = 8.0, 0.2  # of each rate
REPLIES, ROWS = 256, 256
START_SECONDS = 600.0  # in which both processes must have begun to work


def two_processes(setup: Setup, report: Report) -> None:
    """Store the rates of play and of updates alone, and of both at once in processes of their own."""
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
        together = dict(_next_result(results, children) for _ in children)
    finally:
        for child in children:
            child.kill()
            child.join()
    report.add(together=together, shares={name: together[name] / rates[name] for name in rates})
    if torch.cuda.device_count() < 2:
        report.note("Shards (FSDP2) were not measured: there are not several devices.")
    else:
        report.note("Shards (FSDP2): run `league train qwen3-0.6b --set optimizer.processes=N optimizer.sharded=true`.")


def _next_result(results: Queue[tuple[str, float]], children: Sequence[BaseProcess]) -> tuple[str, float]:
    """Return what the next process measured. Raises RuntimeError if one of them has died."""
    while True:
        try:
            return results.get(timeout=1.0)
        except Empty:
            if died := [child.exitcode for child in children if child.exitcode]:
                raise RuntimeError(f"one of the two processes ended with status {died[0]}") from None


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


def beside_vllm(_setup: Setup, report: Report) -> None:
    """Store what ``benchmarks.speed.vllm_engine`` measures on this machine."""
    command = [sys.executable, "-m", "benchmarks.speed.vllm_engine", "--json"]
    try:
        process = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=max(report.left, 1.0))
    except subprocess.TimeoutExpired:
        report.note("Not measured: it took longer than this part's time.")
        return
    report.add(figures=json.loads(process.stdout))
