"""Resources of this machine for a run: cores, a GPU, an engine's package; without torch, which is slow to import."""

from __future__ import annotations

import os
from importlib.util import find_spec

from games.common.errors import UsageError
from league.config import RunConfig
from roles.role import Roles, bound_policies

PROCESSES_PER_CORE = 4  # that learn at the same time; more would only wait for each other


def check_processes(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError for more learning processes than this machine can feed."""
    most = PROCESSES_PER_CORE * cores()
    learners = config.async_learners.processes
    policies = bound_policies(roles)
    of_each = len(learners) if isinstance(learners, dict) else len(policies) if learners == "each" else 0
    for setting, count in (("optimizer.processes", config.optimizer.processes), ("async_learners.processes", of_each)):
        if count > most:
            raise UsageError(
                f"{setting} asks for {count:,} processes, but this machine has {cores()} cores, enough for "
                f"{most}. Set {most} or less, or train on a cluster (--cluster)."
            )


def is_installed(module: str) -> bool:
    """Return whether Python finds a package; a mere folder of its name does not count."""
    spec = find_spec(module)
    return spec is not None and spec.origin is not None


def require_ray(cluster: str) -> None:
    """Raise UsageError, which says how to install it, if Ray, which joins ``cluster``, is missing."""
    if find_spec("ray") is None:
        raise UsageError(
            f"--cluster {cluster} needs Ray, which is not installed. Install it (pip install 'llm-league[ray]'), or "
            "leave --cluster out."
        )


def check_cluster_plays(config: RunConfig, cluster: str) -> None:
    """Raise UsageError for a run that a cluster cannot play: it calls players outside matches, or serves programs."""
    if config.beliefs.asked:
        raise UsageError(
            "[beliefs] asks players questions outside their matches, which engines on a cluster cannot answer. Train "
            "without --cluster, or set beliefs.ask = false and the weights of [beliefs] to 0."
        )
    if config.programs.roles:
        raise UsageError(
            f"programs.roles lets programs play {', '.join(config.programs.roles)}, but with --cluster "
            f"{cluster} other processes play, which programs cannot reach. Leave out --cluster."
        )


def no_gpu(table: str, device: str) -> UsageError:
    """Return the error of a run whose ``table`` of a model asks for a GPU."""
    return UsageError(
        f"{table}.device = {device!r}, but PyTorch finds no GPU here. Set {table}.device = 'cpu' and "
        f"{table}.dtype = 'float32' for a small model, or train on a machine with an NVIDIA GPU."
    )


def cores() -> int:
    """Return the number of cores that this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return count or 1
