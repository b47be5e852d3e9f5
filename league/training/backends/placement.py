"""Whether a cluster has the resources that a run needs, checked before anything is started there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arena.cluster.interface import Resources
from games.common.errors import UsageError
from league.config import RunConfig

ROUNDING = 1e-9  # of a CPU or GPU


class WorkerDemand(NamedTuple):
    """The workers of one kind."""

    kind: str
    processes: int
    resources: Resources  # of each


def worker_demands(config: RunConfig, learners: int) -> list[WorkerDemand]:
    """Return the workers that a run starts."""
    table, engine = config.cluster, Resources(config.cluster.engine_cpus, config.cluster.engine_gpus)
    worker = Resources(table.worker_cpus, 0.0) if table.engines else engine
    demands = [WorkerDemand("worker", table.workers, worker)]
    if table.engines:
        demands.append(WorkerDemand("engine", table.engines, engine))
    if learners:
        processes = learners * config.optimizer.processes
        demands.append(WorkerDemand("learner", processes, Resources(table.learner_cpus, table.learner_gpus)))
    return demands


def assign_bundles(config: RunConfig, learners: int) -> tuple[list[Resources], dict[str, tuple[int, ...]]]:
    """Return the bundles with GPUs to reserve, and each kind's bundle indices by worker number.

    Both are empty if no GPU is requested. If engines and learners share GPUs, the n-th engine and the n-th learner
    share a bundle, and the longer list wraps around to the first bundle.
    """
    demands = {demand.kind: demand for demand in worker_demands(config, learners) if demand.resources.gpus}
    if config.cluster.placement == "separate" or len(demands) < 2:
        bundles: list[Resources] = []
        indices: dict[str, tuple[int, ...]] = {}
        for kind, demand in demands.items():
            indices[kind] = tuple(range(len(bundles), len(bundles) + demand.processes))
            bundles += [demand.resources] * demand.processes
        return bundles, indices
    size = min(demand.processes for demand in demands.values())
    indices = {kind: tuple(number % size for number in range(demand.processes)) for kind, demand in demands.items()}
    shared = [
        Resources(
            sum(demand.resources.cpus * indices[kind].count(index) for kind, demand in demands.items()),
            sum(demand.resources.gpus * indices[kind].count(index) for kind, demand in demands.items()),
        )
        for index in range(size)
    ]
    return shared, indices


def check_cluster(config: RunConfig, learners: int, nodes: Sequence[Resources]) -> None:
    """Raise UsageError, with numbers that would fit, if a cluster of these machines is too small."""
    check_resources(config, learners)
    _check_total(config, learners, nodes)
    _check_shared_gpus(config, learners)
    _check_largest(config, learners, nodes)


def check_resources(config: RunConfig, learners: int) -> None:
    """Raise UsageError for settings that no cluster could meet.

    These are update processes without a learner, a GPU device without a requested GPU, and fractions of GPUs that Ray
    cannot assign.
    """
    table = config.cluster
    if config.optimizer.processes > 1 and not learners:
        raise UsageError(
            f"optimizer.processes = {config.optimizer.processes}: on a cluster, those are the processes of a learner "
            "apart from the one that drives the run. Set async_learners.processes = 'each', or optimizer.processes = 1."
        )
    own_models = {
        f"policies.{name}.model": config.model_of(name) for name, policy in config.policies.items() if policy.model
    }
    on_gpu = {
        where: m.device for where, m in ({"model": config.model} | own_models).items() if m.device.startswith("cuda")
    }
    gpus_by_setting = {"engine_gpus": table.engine_gpus} | ({"learner_gpus": table.learner_gpus} if learners else {})
    for setting, gpus in gpus_by_setting.items():
        if on_gpu and not gpus:
            where, device = next(iter(on_gpu.items()))
            raise UsageError(f"{where}.device = {device!r}, but cluster.{setting} = 0. Set it to 1, or to a fraction.")
        if gpus > 1.0 and gpus != int(gpus):
            raise UsageError(
                f"cluster.{setting} = {gpus:g}: above one, it must be a whole number of GPUs. Set {int(gpus)}."
            )
        both = len(gpus_by_setting) > 1 and all(gpus_by_setting.values())
        if table.placement == "separate" and 0.0 < gpus < 1.0 and both:
            raise UsageError(
                f"cluster.{setting} = {gpus:g} with cluster.placement = 'separate': an engine and a learner that take "
                "a fraction of a GPU may be placed on the same one. Set it to 1, or placement = 'shared'."
            )


def _check_total(config: RunConfig, learners: int, nodes: Sequence[Resources]) -> None:
    """Refuse demands beyond the sum of all machines."""
    demands = worker_demands(config, learners)
    total = Resources(sum(node.cpus for node in nodes), sum(node.gpus for node in nodes))
    for unit in ("GPUs", "CPUs"):
        available = _amount(total, unit)
        by_kind = {demand.kind: demand.processes * _amount(demand.resources, unit) for demand in demands}
        if sum(by_kind.values()) > available + ROUNDING:
            requested = " and ".join(
                f"{_counted(demand.processes, demand.kind)} of {_amount(demand.resources, unit):g}"
                for demand in demands
                if _amount(demand.resources, unit)
            )
            rest = available - sum(amount for kind, amount in by_kind.items() if kind != "worker")
            per_worker = _amount(demands[0].resources, unit)
            workers = int((rest + ROUNDING) / per_worker) if per_worker else 0
            advice = (
                f"Set cluster.workers = {workers}"
                if workers > 0
                else f"Ask for {available:g} in total; fractions are allowed"
            )
            raise UsageError(
                f"The cluster has {available:g} {unit}, but [cluster] asks for {sum(by_kind.values()):g}: {requested}. "
                f"{advice}, or add machines."
            )


def _check_largest(config: RunConfig, learners: int, nodes: Sequence[Resources]) -> None:
    """Refuse a worker or a bundle that no machine could hold alone."""
    singles = [demand.resources for demand in worker_demands(config, learners)] + assign_bundles(config, learners)[0]
    for single in singles:
        if not any(node.cpus + ROUNDING >= single.cpus and node.gpus + ROUNDING >= single.gpus for node in nodes):
            largest = max(nodes, key=lambda node: (node.gpus, node.cpus))
            raise UsageError(
                f"[cluster] asks for {single.cpus:g} CPUs and {single.gpus:g} GPUs on one machine, but the largest of "
                f"the {len(nodes)} has {largest.cpus:g} and {largest.gpus:g}. Ask for that or less "
                f"(placement = {config.cluster.placement!r})."
            )


def _check_shared_gpus(config: RunConfig, learners: int) -> None:
    """Refuse a GPU shared by workers that together request more than one."""
    bundles, indices = assign_bundles(config, learners)
    for index, bundle in enumerate(bundles):
        counts = {kind: numbers.count(index) for kind, numbers in indices.items()}
        sharing = sum(counts.values())
        if config.cluster.placement == "shared" and sharing > 1 and bundle.gpus > 1.0 + ROUNDING:
            workers = " and ".join(_counted(count, kind) for kind, count in counts.items())
            raise UsageError(
                f"With cluster.placement = 'shared', {workers} would take {bundle.gpus:g} of one GPU. Set engine_gpus "
                f"and learner_gpus to {1.0 / sharing:.3g} or less, or placement = 'separate'."
            )


def _counted(count: int, kind: str) -> str:
    return f"{count} {kind}{'s' * (count > 1)}"


def _amount(resources: Resources, unit: str) -> float:
    return resources.cpus if unit == "CPUs" else resources.gpus
