"""All measurements that need a GPU, in one command that runs the most valuable ones first: `python -m benchmarks gpu`.

    python -m benchmarks gpu [--minutes 8] [--device cuda] [--parts PART ...] [--tiny] [--out FILE]

First the device's limits are measured: the rate of bfloat16 products, copy bandwidth, the launch of a kernel. Then the
parts follow in order of worth, each with a share of the time that is left. The result is written again after every
case, so that what was measured stays when the command is cut off: by SIGTERM, Ctrl-C, the end of its minutes, or
memory. It needs no network, and torch, transformers, tokenizers, safetensors and numpy; a part that needs more says
what it lacks. `--tiny` takes sizes that only show that everything runs, as the tests do: `--device cpu --tiny`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.gpu.roofline import measured_rates, table
from benchmarks.gpu.session import Part, Report, Session, Setup
from benchmarks.report.provenance import ROOT
from games.common.files import atomic_write

RESULTS = ROOT / "benchmarks" / "results" / "gpu"
PAGE = ROOT / "benchmarks" / "results" / "roofline.md"
_LOSSES = ("pydantic",)  # every term of a loss has a table of settings
_GAMES = (*_LOSSES, "pyspiel", "openskill", "tomli_w", "rich")
_PARTS = {  # by name: share of the time, module, function, libraries beyond those that everything needs
    "limits": (0.3, "limits", "measure", ()),
    "update": (3.0, "update", "measure", _LOSSES),
    "play": (3.0, "play", "measure", ()),
    "iteration": (2.0, "training", "iterations", _GAMES),
    "learning": (4.0, "training", "learning", (*_GAMES, "peft")),
    "parity": (0.5, "parity", "measure", ()),
    "vllm": (1.5, "sharing", "beside_vllm", ("vllm", *_GAMES)),
    "processes": (1.0, "sharing", "two_processes", _LOSSES),
    "shards": (1.0, "shards", "measure", _LOSSES),
}
PARTS = tuple(_PARTS)


def main(argv: list[str]) -> int:
    """Measure; return 0 when it is complete, 1 when a part failed or it was cut off, 2 for a mistake in the command."""
    arguments = _parse(argv)
    import torch

    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        print(
            "benchmarks gpu: PyTorch finds no GPU here. --device cpu --tiny shows that it would run.", file=sys.stderr
        )
        return 2
    device = _device(arguments.device)
    path = arguments.out
    if path is None and arguments.device.startswith("cuda") and not arguments.tiny:
        path = RESULTS / f"{re.sub('[^a-z0-9]+', '-', device['name'].lower())}.json"
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    session = Session(Setup(arguments.device, arguments.tiny), arguments.minutes, path, device)
    names = [name for name in PARTS if name in {"limits", *arguments.parts}]
    finished = session.run([_part(name) for name in names])
    print(json.dumps(session.document, indent=2) if path is None else f"Written: {path}")
    print(session.document["state"], file=sys.stderr)
    return 0 if finished and not any(part.get("failed") for part in session.document["parts"].values()) else 1


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="in which it ends (default: 8)")
    parser.add_argument("--device", default="cuda", help="torch's name of the device (default: cuda)")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that everything runs")
    parser.add_argument(
        "--out", type=Path, help="the file (default: benchmarks/results/gpu/CARD.json; on a CPU or tiny, it is printed)"
    )
    arguments = parser.parse_args(argv)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", arguments.device):
        parser.error(f"--device {arguments.device}: it is cpu, cuda, or one of several, such as cuda:1")
    if not 0.0 < arguments.minutes <= 1440.0:
        parser.error(f"--minutes {arguments.minutes:g}: more than 0 are needed, and at most 1440 are taken")
    return arguments


def render() -> None:
    """Write the roofline into its page, with what was measured."""
    from benchmarks.report.page import insert

    text = PAGE.read_text(encoding="utf-8")
    atomic_write(PAGE, insert(text, "roofline", table(measured_rates(RESULTS))))


def _device(name: str) -> dict[str, Any]:
    """Return the device's name, memory and number as JSON data."""
    import torch

    if not name.startswith("cuda"):
        return {"name": "CPU", "count": 1, "torch": torch.__version__, "threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(name)
    return {
        "name": properties.name,
        "count": torch.cuda.device_count(),
        "memory": properties.total_memory,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }


def _part(name: str) -> Part:
    share, module, function, needs = _PARTS[name]

    def run(setup: Setup, report: Report) -> None:
        getattr(importlib.import_module(f"benchmarks.gpu.{module}"), function)(setup, report)

    return Part(name, share, run, needs)
