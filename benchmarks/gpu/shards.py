"""One update on several devices: the whole weights in each process, and sharded over them by FSDP2."""

from __future__ import annotations

import multiprocessing
import tempfile
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from arena.roofline import QWEN3_4B
from benchmarks.gpu.session import Report, Setup
from benchmarks.gpu.shapes import TINY
from benchmarks.gpu.sharing import next_result
from benchmarks.gpu.timing import best_seconds, forget_peak, peak_memory
from benchmarks.gpu.update import Case, game_length_batch, policy_of, step_of
from learners.parallel.process_group import TorchProcessGroup

REPEATS = 2
CASE, CASE_TINY = Case(QWEN3_4B, False, True, 8192, 256), Case(TINY, False, True, 512, 8)
Result = tuple[str, dict[str, Any]]


def measure(setup: Setup, report: Report) -> None:
    """Store the rate and memory of an update of all weights, copied and sharded, with a process for each device."""
    processes = torch.cuda.device_count() if setup.device.startswith("cuda") else 2
    if processes < 2:
        report.note("Not measured: there are not several GPUs.")
        return
    for sharded in (True, False):
        key = f"{'sharded' if sharded else 'copied'}/{processes} processes"
        if report.affords(key):
            report.case(key=key, **_together(setup, processes, sharded))


def _together(setup: Setup, processes: int, sharded: bool) -> dict[str, Any]:
    """Return what the process of rank 0 measured."""
    context = multiprocessing.get_context("spawn")
    results: Queue[Result] = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        children = [
            context.Process(target=_child, args=(rank, processes, meeting, setup, sharded, results))
            for rank in range(processes)
        ]
        try:
            for child in children:
                child.start()
            return dict(next_result(results, children) for _ in children)["0"]
        finally:
            for child in children:
                child.kill()
                child.join()


def _child(rank: int, size: int, meeting: str, setup: Setup, sharded: bool, results: Queue[Result]) -> None:
    torch.set_num_threads(1)
    on_gpu = setup.device.startswith("cuda")
    device = f"cuda:{rank}" if on_gpu else "cpu"
    if on_gpu:
        torch.cuda.set_device(rank)
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", init_method=meeting, rank=rank, world_size=size)
    case = CASE_TINY if setup.tiny else CASE
    policy = policy_of(case, setup._replace(device=device))
    assert policy is not None, "all weights need no PEFT"
    if sharded:
        policy.shard(init_device_mesh("cuda" if on_gpu else "cpu", (size,)))
    batch = game_length_batch(case.rows, case.shape.vocabulary)
    step = step_of(policy, batch, case.tokens, TorchProcessGroup())
    forget_peak(device)
    spent = best_seconds(step, device, REPEATS)
    tokens = sum(len(row.prompt) + len(row.reply) for row in batch.free)
    results.put((str(rank), {"tokens_per_second": tokens / spent, "peak_memory": peak_memory(device)}))
    dist.barrier()
    dist.destroy_process_group()
