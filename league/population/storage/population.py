"""The snapshots of a run on disk: atomic, hashed, immutable.

``population/<policy>-<step>/`` is a folder that other tools load as it is, plus ``snapshot.json``: a model
in Hugging Face layout, or an adapter in PEFT's. It appears atomically; a folder that a killed process left
incomplete starts with a dot and is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from games.common.errors import UsageError, unknown_name
from games.common.files import read_json
from games.spec import GameSpec
from league.config import RunConfig
from league.config.load import seat_roles
from league.population.storage.immutable_folder import changed_files, discard, freeze, remove_partial

_CARD = "snapshot.json"
_POLICY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Origin(StrEnum):
    """How a snapshot came to be from its parent."""

    START = "start"  # the weights before training; it has no parent
    TRAINED = "trained"  # by continued training from its policy's last snapshot
    RESET = "reset"  # by training from the initial weights, to which its policy was reset
    RESPONSE = "response"  # by training from the snapshot that its policy's best response started from
    EXPLOITER = "exploiter"  # an exploiter's first: by training from the initial weights
    DISTILLED = "distilled"  # by imitating its parent, or a mixture in which it has the greatest weight
    MERGED = "merged"  # by merging the weights of its parents, and further training
    CROSSED = "crossed"  # by crossing or mutating its parents' weights along singular vectors, and further training


HOW = {
    Origin.START: "the weights before training",
    Origin.TRAINED: "trained on",
    Origin.RESET: "reset to the initial weights, then trained",
    Origin.RESPONSE: "trained from the snapshot that a best response starts from",
    Origin.EXPLOITER: "an exploiter's first",
    Origin.DISTILLED: "distilled",
    Origin.MERGED: "merged, then trained",
    Origin.CROSSED: "crossed, then trained",
}


class Plays(NamedTuple):
    """What a snapshot plays with besides its weights (``league.population.storage.identity``)."""

    cards: Mapping[str, str] = {}  # digests of its run's cards, by "GAME/ROLE"
    notes: str = ""  # the version of its run's notes that has its own


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An immutable copy of a policy's weights after ``step`` updates of it."""

    id: str  # "main-000120"
    policy: str
    step: int
    parent: str | None  # the snapshot whose weights its training began from; None: none
    origin: Origin  # how it came to be from its parent
    sha256: Mapping[str, str] = field(hash=False)  # by file name: weights, configuration and tokenizer alike
    path: Path = field(compare=False)
    parents: tuple[str, ...] = ()  # all its sources: snapshots of its run, or of others: RUN, RUN@SNAPSHOT
    how: str = ""  # in words, if the origin does not say enough
    cards: Mapping[str, str] = field(default_factory=dict, hash=False)  # digests of its run's cards, by "GAME/ROLE"
    notes: str = ""  # the version of its run's notes that it plays with


class Population:
    """The snapshots under ``root``. The folder is read once, on opening."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        folders = [entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
        self._snapshots = _in_order(map(_read, folders))
        self._verified: set[str] = set()

    def __len__(self) -> int:
        return len(self._snapshots)

    def add(
        self,
        policy: str,
        step: int,
        parent: str | None,
        write: Callable[[Path], None],
        origin: Origin | None = None,
        parents: Sequence[str] = (),
        how: str = "",
        plays: Plays = Plays(),  # noqa: B008 (a record that nobody changes)
    ) -> Snapshot:
        """Freeze a policy: ``write`` fills a new folder with its files, which are hashed and made read-only.

        Without an ``origin`` it was trained from its parent, or is a start if it has none. ``parents``: if there are
        others than the parent, such as snapshots of other runs. ``plays``: what it plays with.

        Raises UsageError for a policy name that cannot be a folder's, ValueError when the snapshot
        exists, is older than the newest, has an unknown parent or no safetensors weights.
        """
        identity = self._checked_id(policy, step, parent)
        origin = origin or _usual_origin(parent)
        of = tuple(parents) or ((parent,) if parent is not None else ())
        facts = {"id": identity, "policy": policy, "step": step, "parent": parent, "origin": origin}
        facts |= {"parents": of, "how": how or HOW[origin]}
        facts |= {key: value for key, value in plays._asdict().items() if value}
        hashes = freeze(self.root / identity, _CARD, write, facts)
        folder, words = self.root / identity, how or HOW[origin]
        snapshot = Snapshot(identity, policy, step, parent, origin, hashes, folder, of, words, *plays)
        self._snapshots = _in_order([*self._snapshots.values(), snapshot])
        self._verified.add(identity)
        return snapshot

    def get(self, identity: str) -> Snapshot:
        """Return a snapshot by id. Raises UsageError that offers the nearest ids."""
        if identity not in self._snapshots:
            raise unknown_name("snapshot", identity, self._snapshots)
        return self._snapshots[identity]

    def all(self, policy: str | None = None) -> list[Snapshot]:
        """Return the snapshots, of one policy or of all, in the order of their steps, then by policy."""
        return [snapshot for snapshot in self._snapshots.values() if policy in (None, snapshot.policy)]

    def newest(self, policy: str) -> Snapshot:
        """Return the newest snapshot of a policy. Raises UsageError when it has none."""
        snapshots = self.all(policy)
        if not snapshots:
            raise unknown_name("policy with snapshots", policy, {snapshot.policy for snapshot in self.all()})
        return snapshots[-1]

    def verify(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot after a check of its files' hashes, which is done once in a process.

        Raises UsageError, with the snapshot and the file that is missing, foreign or changed.
        """
        if snapshot.id not in self._verified:
            if wrong := changed_files(snapshot.path, _CARD, snapshot.sha256):
                raise UsageError(
                    f"Snapshot {snapshot.id} has changed since it was frozen: {', '.join(wrong)} in {snapshot.path} is "
                    f"missing, foreign or changed, or {_CARD} is. "
                    "Restore the folder from a copy, or delete it to continue without it."
                )
            self._verified.add(snapshot.id)
        return snapshot

    def discard_after(self, step: int) -> list[str]:
        """Remove snapshots newer than ``step`` and incomplete ones; return the ids of the former.

        For a resumed run, whose checkpoint may be older than its newest snapshots. Only the process
        that trains may call it: it would remove another's incomplete snapshot.
        """
        newer = [snapshot for snapshot in self._snapshots.values() if snapshot.step > step]
        for snapshot in newer:
            discard(snapshot.path)
            del self._snapshots[snapshot.id]
            self._verified.discard(snapshot.id)
        remove_partial(self.root)
        return [snapshot.id for snapshot in newer]

    def _checked_id(self, policy: str, step: int, parent: str | None) -> str:
        """Return the id of a new snapshot. Raises as ``add``."""
        if not _POLICY.fullmatch(policy):
            raise UsageError(
                f"A policy cannot be named {policy!r}: its snapshots are folders with that name. "
                "Use letters, digits, '.', '_' and '-', and begin with a letter or digit."
            )
        newest = max((snapshot.step for snapshot in self._snapshots.values()), default=0)
        identity = snapshot_id(policy, step)
        if identity in self._snapshots or step < newest:
            raise ValueError(f"cannot add snapshot {identity}: the population has it, or a newer one of step {newest}")
        if parent is not None:
            self.get(parent)
        return identity


def snapshot_id(policy: str, step: int) -> str:
    """Return the id of a policy's snapshot after ``step`` updates."""
    return f"{policy}-{step:06d}"


def parents_of(snapshot: Snapshot) -> str:
    """Return the names of a snapshot's parents; if there are many, the first and how many more."""
    first, *others = snapshot.parents or ("nothing",)
    return f"{first} and {len(others)} more" if len(others) > 2 else ", ".join([first, *others])


def _usual_origin(parent: str | None) -> Origin:
    return Origin.START if parent is None else Origin.TRAINED


def _in_order(snapshots: Iterable[Snapshot]) -> dict[str, Snapshot]:
    """Return snapshots by id in an order that does not depend on when they were added: draws go by it."""
    return {snapshot.id: snapshot for snapshot in sorted(snapshots, key=lambda each: (each.step, each.policy))}


def _read(folder: Path) -> Snapshot:
    """Return the snapshot in a folder by its card; the weights are not read."""
    try:
        card = read_json(folder / _CARD)
        parent = card["parent"]
        origin = Origin(card.get("origin", _usual_origin(parent)))  # older cards lack it
        of = tuple(card.get("parents", [parent] if parent is not None else []))  # older cards lack these too
        how = card.get("how", HOW[origin])
        plays = dict(card.get("cards", {})), str(card.get("notes", ""))
        facts = card["id"], card["policy"], card["step"], parent, origin, card["sha256"]
        snapshot = Snapshot(*facts, folder, of, how, *plays)
        _check_facts(snapshot)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{folder} is not a snapshot: its {_CARD} cannot be read ({error}). "
            "Restore the folder from a copy, or move it out of the population."
        ) from error
    if snapshot.id != folder.name:
        raise UsageError(f"Folder {folder} holds snapshot {snapshot.id}. Rename the folder to {snapshot.id}.")
    return snapshot


def _check_facts(snapshot: Snapshot) -> None:
    """Raise ValueError for a card whose facts are of another kind: it may be a stranger's."""
    names = [snapshot.id, snapshot.how, *snapshot.parents, *snapshot.sha256, *snapshot.sha256.values()]
    if snapshot.parent is not None:
        names.append(snapshot.parent)
    if not all(isinstance(name, str) for name in names) or type(snapshot.step) is not int:
        raise ValueError("one of its facts is of another kind")
    if not (_POLICY.fullmatch(snapshot.policy) and snapshot.id == snapshot_id(snapshot.policy, snapshot.step)):
        raise ValueError("its id is not its policy and step")


def newest_strangers(config: RunConfig, spec: GameSpec, snapshots: Sequence[Snapshot]) -> list[str]:
    """Return the newest snapshot of each partner that is held out; none if roles have different policies."""
    if spec.seats < 2 or len({role.policy for role in seat_roles(config.roles, spec) if not role.fixed}) != 1:
        return []
    held_out = {name for name in {snapshot.policy for snapshot in snapshots} if config.policy(name).held_out}
    newest = {snapshot.policy: snapshot.id for snapshot in snapshots if snapshot.policy in held_out}
    return list(newest.values())
