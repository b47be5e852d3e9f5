"""The device's limits, measured in the same run as everything that is compared with them."""

from __future__ import annotations

import torch

from arena.flops import peak_rate
from benchmarks.gpu.session import Report, Setup
from benchmarks.gpu.timing import best_seconds, seconds

COPIED, COPIED_TINY = 1 << 31, 1 << 24  # bytes
LAUNCHES, LAUNCHES_TINY = 4000, 200
REPEATS = 5


def measure(setup: Setup, report: Report) -> None:
    """Store the rate of bfloat16 products, of copies, and what it takes to launch a kernel."""
    device = setup.device
    report.add(product_flops=peak_rate(device, "float32" if setup.tiny else "bfloat16", torch.get_num_threads()))
    report.add(copy_bytes=copy_rate(device, COPIED_TINY if setup.tiny else COPIED))
    report.add(launch_seconds=launch_seconds(device, LAUNCHES_TINY if setup.tiny else LAUNCHES))


def copy_rate(device: str, size: int) -> float:
    """Return bytes/s of a copy on the device, read and written."""
    source = torch.ones(size // 2, dtype=torch.bfloat16, device=device)
    target = torch.empty_like(source)
    return 2.0 * size / best_seconds(lambda: target.copy_(source), device, REPEATS)


def launch_seconds(device: str, launches: int) -> float:
    """Return the seconds that a kernel takes which has nothing to do, one behind another."""
    number = torch.zeros(1, device=device)

    def launch() -> None:
        for _ in range(launches):
            number.add_(1.0)

    launch()
    return seconds(launch, device) / launches
