"""What learning must not lose when it is killed: policies, what they have gathered, what baselines remember."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from games.files import sync_files, sync_folder
from learners.pending import Pending
from learners.policy import Policy

LEARNING_FILE = "learning.json"
_PENDING = ".pending.json"


class Learning(Protocol):
    """What the updates read and move on."""

    policies: dict[str, Policy]  # by name
    credit: dict[str, Any]  # what running baselines remember, by rule
    pending: dict[str, Pending]  # turns of policies whose update is not due, by policy


@dataclass(slots=True)
class LearningState:
    """The learning of a process that does nothing else."""

    policies: dict[str, Policy]
    credit: dict[str, Any] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)


def write_policies(folder: Path, policies: Mapping[str, Policy], pending: Mapping[str, Pending]) -> None:
    """Write each policy and what it has gathered into an existing folder."""
    for name, policy in policies.items():
        policy.save(folder / f"{name}.safetensors")
    for name, gathered in pending.items():
        (folder / f"{name}{_PENDING}").write_text(gathered.to_json(), encoding="utf-8")


def read_policies(folder: Path, policies: Mapping[str, Policy]) -> None:
    """Restore policies in place. Raises UsageError for weights that do not fit."""
    for name, policy in policies.items():
        policy.restore(folder / f"{name}.safetensors")


def read_pending(folder: Path, names: Iterable[str]) -> dict[str, Pending]:
    """Return what these policies had gathered."""
    return {name: Pending.from_json((folder / f"{name}{_PENDING}").read_text(encoding="utf-8")) for name in names}


def save_learning(folder: Path, learning: Learning, names: Iterable[str]) -> None:
    """Write the learning of these policies into a new folder, which appears whole or not at all.

    One that is there already was left by a process that died before it told anybody, and is replaced.
    """
    partial = folder.with_name(f".{folder.name}")
    for leftover in (partial, folder):
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir(parents=True)
    own = list(names)
    pending = {name: learning.pending[name] for name in own if name in learning.pending}
    write_policies(partial, {name: learning.policies[name] for name in own}, pending)
    facts = {"policies": own, "pending": list(pending), "credit": learning.credit}
    (partial / LEARNING_FILE).write_text(json.dumps(facts), encoding="utf-8")
    sync_files(partial)
    partial.rename(folder)
    sync_folder(folder.parent)


def load_learning(folder: Path, learning: Learning) -> None:
    """Bring the policies in a folder that ``save_learning`` wrote, and all that goes with them, into ``learning``."""
    facts = json.loads((folder / LEARNING_FILE).read_text(encoding="utf-8"))
    own = facts["policies"]
    read_policies(folder, {name: learning.policies[name] for name in own})
    for name in own:
        learning.pending.pop(name, None)
    learning.pending.update(read_pending(folder, facts["pending"]))
    learning.credit = {**learning.credit, **facts["credit"]}
