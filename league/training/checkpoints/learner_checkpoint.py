"""The checkpoint of learning: policies, their gathered trajectories, and running baselines."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from games.common.files import sync_files, sync_folder
from league.population.storage.immutable_folder import check_manifest, write_manifest
from learners.losses.term import ImitatedReply
from learners.parallel.saved_shards import wait_for
from learners.trajectory_buffer import TrajectoryBuffer
from learners.update.policy import Policy

LEARNING_FILE = "learning.json"
PENDING = ".pending.json"


class Learning(Protocol):
    """The state that credit and updates read and change."""

    policies: dict[str, Policy]  # by name
    credit: dict[str, Any]  # state of running baselines, by rule
    values: dict[str, Any]  # what value estimators have learned, by estimator
    pending: dict[str, TrajectoryBuffer]  # turns of policies whose update is not due, by policy
    imitated: Mapping[str, Sequence[ImitatedReply]]  # replies of others to imitate, by policy; not saved with it


@dataclass(slots=True)
class LearningState:
    """The ``Learning`` of a process that only learns."""

    policies: dict[str, Policy]
    credit: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    pending: dict[str, TrajectoryBuffer] = field(default_factory=dict)
    imitated: Mapping[str, Sequence[ImitatedReply]] = field(default_factory=dict)


def write_policies(
    folder: Path, policies: Mapping[str, Policy], pending: Mapping[str, TrajectoryBuffer]
) -> list[Future[None]]:
    """Write each policy and its gathered trajectories into an existing folder; return what is still being written."""
    begun = [policy.save(folder / f"{name}.safetensors") for name, policy in policies.items()]
    for name, gathered in pending.items():
        (folder / f"{name}{PENDING}").write_text(gathered.to_json(), encoding="utf-8")
    return [writing for writing in begun if writing is not None]


def read_policies(folder: Path, policies: Mapping[str, Policy]) -> None:
    """Restore the policies' weights and optimiser state. Raises UsageError for weights that do not fit."""
    for name, policy in policies.items():
        policy.restore(folder / f"{name}.safetensors")


def read_pending(folder: Path) -> dict[str, TrajectoryBuffer]:
    """Return the gathered trajectories, by policy."""
    return {
        path.name.removesuffix(PENDING): TrajectoryBuffer.from_json(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob(f"*{PENDING}"))
    }


def save_learning(folder: Path, learning: Learning, names: Iterable[str]) -> None:
    """Write the learning of these policies into a new folder, which appears atomically.

    A folder of that name was left by a process that died before it acknowledged its batch, and is replaced.
    """
    partial = folder.with_name(f".{folder.name}")
    for leftover in (partial, folder):
        shutil.rmtree(leftover, ignore_errors=True)
    write_learning(partial, learning, names)
    write_manifest(partial)
    sync_files(partial)
    partial.rename(folder)
    sync_folder(folder.parent)


def load_learning(folder: Path, learning: Learning) -> None:
    """Load the folder that ``save_learning`` wrote into ``learning``. Raises DamagedFile for any other."""
    check_manifest(folder)
    read_learning(folder, learning)


def write_learning(folder: Path, learning: Learning, names: Iterable[str], *, leads: bool = True) -> None:
    """Write the learning of these policies into a folder, which is made if it is missing.

    Of shards each process writes its part, all at the same time, and the one that ``leads`` writes the rest. When this
    returns, all have written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    policies = list(names)
    pending = {name: learning.pending[name] for name in policies if leads and name in learning.pending}
    for writing in write_policies(folder, {name: learning.policies[name] for name in policies}, pending):
        wait_for(writing)
    if leads:
        facts = {"policies": policies, "credit": learning.credit, "values": learning.values}
        (folder / LEARNING_FILE).write_text(json.dumps(facts), encoding="utf-8")


def read_learning(folder: Path, learning: Learning) -> None:
    """Load the folder that ``write_learning`` wrote, to its end, into ``learning``."""
    facts = json.loads((folder / LEARNING_FILE).read_text(encoding="utf-8"))
    names = facts["policies"]
    read_policies(folder, {name: learning.policies[name] for name in names})
    for name in names:
        learning.pending.pop(name, None)
    learning.pending.update(read_pending(folder))
    learning.credit = {**learning.credit, **facts["credit"]}
    learning.values = {**learning.values, **facts["values"]}
