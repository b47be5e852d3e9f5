"""What a game does whose match may begin with a given task, and one whose matches write such tasks."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class TakesTasks(Protocol):
    """A Game whose match may begin with a task that is given as text, in place of one that it deals.

    A match may open such matches, attempts at a task: they pay what they pay, and their outcome is what the first seat
    got, as text ("1").
    """

    def start_task(self, task: str) -> None:
        """Begin with a task; called once after ``reset``. Raises ValueError, with the reason, for what is none."""
        ...

    def task(self) -> str:
        """Return this match's task, as ``start_task`` takes it."""
        ...

    def task_size(self) -> int:
        """Return how large the task is, such as the digits of a sum: the larger, the longer."""
        ...


@runtime_checkable
class WritesTasks(Protocol):
    """A Game whose match writes tasks, each of which it opens for others to attempt."""

    def invalid(self) -> tuple[str, ...]:
        """Return why tasks of this match were not admitted, one reason each."""
        ...
