"""Processes that a run has on other machines, as those see them who give them work: no library is named here.

``arena.ray_pool`` is what there is of them today.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

Ref = Any  # to a value that is kept in the cluster


class Name(NamedTuple):
    """A member of the cluster. One that replaces another has the same number and the next term."""

    kind: str  # "worker", "engine", "learner"
    number: int
    term: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


class Died(RuntimeError):
    """A member was gone before its work was done."""

    def __init__(self, name: Name, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"{self.name} died ({self.reason})"


class Post(NamedTuple):
    """What a member is: the object that its process holds, and what it takes of the cluster."""

    kind: str
    make: Callable[..., object]
    arguments: tuple[object, ...]
    cpus: float
    gpus: float = 0.0
    streams: bool = False  # answers many calls of ``submit`` side by side; otherwise one call after the other
    here: bool = False  # on the machine of the process that asks for it
    bundles: tuple[int, ...] = ()  # the reserved places of its members by number; none: anywhere


class Room(NamedTuple):
    """What a machine has, or a place on one takes."""

    cpus: float
    gpus: float


class Call(NamedTuple):
    """Work under way."""

    ref: Ref
    name: Name  # who does it


class Member(Protocol):
    """An object in a process of the cluster."""

    @property
    def name(self) -> Name:
        """Who it is."""
        ...

    @property
    def handle(self) -> Any:
        """What other members reach it by."""
        ...

    def call(self, method: str, *arguments: object) -> Call:
        """Begin a method. A ``Ref`` among the arguments arrives as what it refers to; within one it stays a ``Ref``.

        ``there`` is done as soon as the process is there, without its object. ``close`` ends what the object has,
        if there is one and it has such a method.
        """
        ...

    def dismiss(self) -> None:
        """End its process, if it still has one."""
        ...


class Cluster(Protocol):
    """Where members live."""

    def hire(self, post: Post, number: int, term: int) -> Member:
        """Return a member that is starting: it begins its first call when it has a place."""
        ...

    def put(self, value: object) -> Ref:
        """Keep a value where every member can get it, as long as somebody holds the reference."""
        ...

    def get(self, call: Call) -> Any:
        """Wait for work; return what came of it. Raises Died, and what the work raised as it was raised."""
        ...

    def done(self, calls: Sequence[Call], seconds: float | None) -> list[Call]:
        """Return those that are done as soon as there is one; none when the time is up."""
        ...
