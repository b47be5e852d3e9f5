"""Whether a cluster has room for what a run asks of it: told before anything is started there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arena.cluster import Room
from games.errors import UsageError
from league.config import RunConfig


class Need(NamedTuple):
    """Members of one kind."""

    kind: str
    members: int
    each: Room


def needs(config: RunConfig, learners: int) -> list[Need]:
    """Return who will be started."""
    wanted, engine = config.cluster, Room(config.cluster.engine_cpus, config.cluster.engine_gpus)
    found = [Need("worker", wanted.workers, Room(wanted.worker_cpus, 0.0) if wanted.engines else engine)]
    found += [Need("engine", wanted.engines, engine)] if wanted.engines else []
    members = learners * config.learner.processes
    found += [Need("learner", members, Room(wanted.learner_cpus, wanted.learner_gpus))] if learners else []
    return found


def places(config: RunConfig, learners: int) -> tuple[list[Room], dict[str, tuple[int, ...]]]:
    """Return the places with GPUs that are to be reserved, and which of them a kind's members have, by number.

    Nothing where no GPU is asked for. If engines and learners share GPUs, the n-th of one kind is with the n-th of the
    other, and those of the longer list begin again with the first.
    """
    asked = {need.kind: need for need in needs(config, learners) if need.each.gpus}
    if config.cluster.placement == "separate" or len(asked) < 2:
        bundles: list[Room] = []
        of: dict[str, tuple[int, ...]] = {}
        for kind, need in asked.items():
            of[kind] = tuple(range(len(bundles), len(bundles) + need.members))
            bundles += [need.each] * need.members
        return bundles, of
    fewest = min(need.members for need in asked.values())
    of = {kind: tuple(number % fewest for number in range(need.members)) for kind, need in asked.items()}
    shared = [
        Room(
            sum(need.each.cpus * of[kind].count(place) for kind, need in asked.items()),
            sum(need.each.gpus * of[kind].count(place) for kind, need in asked.items()),
        )
        for place in range(fewest)
    ]
    return shared, of


def check_cluster(config: RunConfig, learners: int, nodes: Sequence[Room]) -> None:
    """Raise UsageError, with the number that would work, if a cluster of these machines is too small."""
    wanted = config.cluster
    check_members(config, learners)
    found = needs(config, learners)
    total = Room(sum(one.cpus for one in nodes), sum(one.gpus for one in nodes))
    for unit, have in (("GPUs", total.gpus), ("CPUs", total.cpus)):
        by_kind = {need.kind: need.members * _of(need.each, unit) for need in found}
        if sum(by_kind.values()) > have + 1e-9:
            asked = " and ".join(
                f"{need.members} {need.kind}{'s' * (need.members > 1)} of {_of(need.each, unit):g}"
                for need in found
                if _of(need.each, unit)
            )
            others = sum(amount for kind, amount in by_kind.items() if kind != "worker")
            each = _of(found[0].each, unit)
            fit = int((have - others + 1e-9) / each) if each else 0
            advice = f"Set cluster.workers = {fit}" if fit > 0 else f"Ask for {have:g} in all, parts of one allowed"
            raise UsageError(
                f"The cluster has {have:g} {unit}, but [cluster] asks for {sum(by_kind.values()):g}: {asked}. "
                f"{advice}, or add machines."
            )
    _check_shared(config, learners)
    singles = [need.each for need in found] + places(config, learners)[0]
    for one in singles:
        if not any(node.cpus + 1e-9 >= one.cpus and node.gpus + 1e-9 >= one.gpus for node in nodes):
            largest = max(nodes, key=lambda node: (node.gpus, node.cpus))
            raise UsageError(
                f"[cluster] asks for {one.cpus:g} CPUs and {one.gpus:g} GPUs on one machine, but the largest of the "
                f"{len(nodes)} has {largest.cpus:g} and {largest.gpus:g}. Ask for that or less "
                f"(placement = {wanted.placement!r})."
            )


def check_members(config: RunConfig, learners: int) -> None:
    """Raise UsageError for processes without a learner, GPUs that nobody has, and shares that could not be given."""
    wanted = config.cluster
    if config.learner.processes > 1 and not learners:
        raise UsageError(
            f"learner.processes = {config.learner.processes}: on a cluster, those are the processes of a learner apart "
            "from the one that steers the run. Set decoupled.learners = 'each', or learner.processes = 1."
        )
    on_gpu = config.model.device.startswith("cuda")
    asked = {"engine_gpus": wanted.engine_gpus} | ({"learner_gpus": wanted.learner_gpus} if learners else {})
    for name, gpus in asked.items():
        if on_gpu and not gpus:
            raise UsageError(
                f"model.device = {config.model.device!r}, but cluster.{name} = 0. Set it to 1, or to a part of one."
            )
        if gpus > 1.0 and gpus != int(gpus):
            raise UsageError(f"cluster.{name} = {gpus:g}: more than one GPU is a whole number. Set {int(gpus)}.")
        if wanted.placement == "separate" and 0.0 < gpus < 1.0 and len(asked) > 1 and all(asked.values()):
            raise UsageError(
                f"cluster.{name} = {gpus:g} with cluster.placement = 'separate': two that take a part of a GPU may "
                "come to the same. Set it to 1, or placement = 'shared'."
            )


def _check_shared(config: RunConfig, learners: int) -> None:
    """Refuse a GPU that is shared by more than it has."""
    bundles, of = places(config, learners)
    for place, bundle in enumerate(bundles):
        together = {kind: numbers.count(place) for kind, numbers in of.items()}
        if config.cluster.placement == "shared" and sum(together.values()) > 1 and bundle.gpus > 1.0 + 1e-9:
            who = " and ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in together.items())
            raise UsageError(
                f"With cluster.placement = 'shared', {who} would take {bundle.gpus:g} of one GPU. Set engine_gpus and "
                f"learner_gpus to {1.0 / sum(together.values()):.3g} or less, or placement = 'separate'."
            )


def _of(room: Room, unit: str) -> float:
    return room.cpus if unit == "CPUs" else room.gpus
