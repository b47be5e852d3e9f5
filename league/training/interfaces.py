"""The protocols of the backends on which a run plays and learns: this machine (``local``) or Ray (``cluster``).

The choice belongs to the session, not to the run: a run that started on one may be resumed on the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from arena.records import Episode, MatchRequest
from arena.remote.usage import Usage
from league.config.context import RunContext
from league.population.players.engines import Engines
from league.population.players.fixed import FixedPlayers
from league.population.players.model_engine import ModelEngine
from league.training.checkpoints.run_state import RunState
from learners.advantages.rule import Advantages
from learners.trajectories import Evidence, Trajectory, TurnSelection

Metrics = dict[str, float]


class LearnerFailed(RuntimeError):
    """A remote learner ended before its work was done; the message says how."""


class LearnerLost(LearnerFailed):
    """A remote learner was killed or went silent, for reasons unrelated to what it was learning."""


class LearnResult(NamedTuple):
    """The result of one iteration's learning."""

    trajectories: Sequence[Trajectory]  # those that were learned from; empty where they were dropped
    advantages: Advantages  # by trajectory, by turn
    metrics: Metrics
    selections: Sequence[TurnSelection | None] = ()  # by trajectory, of its turns; () without rules of selection


class Learner(Protocol):
    """Takes the loop's trajectories and updates its policies."""

    lead: int  # iterations by which play may be ahead of learning

    def begin(self) -> None:
        """Start; the run's state has been saved, and the policies are as saved."""
        ...

    def submit(self, iteration: int, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]) -> None:
        """Take an iteration's trajectories and the evidence of each, in the order of the iterations."""
        ...

    def ready(self, iteration: int) -> bool:
        """Return whether ``collect`` would not wait for another process."""
        ...

    def collect(self, iteration: int) -> LearnResult:
        """Learn from an iteration, or wait until that is done; the run's state then has the policies after it."""
        ...

    def recover(self) -> bool:
        """Replace the processes of which one was lost over a checkpoint; return whether the state can be saved now."""
        ...


class RolloutBackend(Protocol):
    """Plays a run's matches."""

    @property
    def engine(self) -> ModelEngine:
        """The engine of the run's language models."""
        ...

    @property
    def fixed(self) -> FixedPlayers:
        """The fixed players, and the roles as they are played."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Sentences to show before the first match."""
        ...

    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """Return the episodes in the order of the requests, played with the current weights."""
        ...

    def flow(self, requests: Iterator[MatchRequest]) -> Iterator[Sequence[Episode]]:
        """Play matches as there is room for them, and yield every so often those that have ended, in any order.

        The iterator may be exhausted for a time. It ends when no match is in flight and none can start.
        """
        ...

    def metrics(self) -> Metrics:
        """Return metrics on how the matches since the last call were played."""
        ...

    def close(self) -> None:
        """Stop the engines and processes that play."""
        ...


class Deployment(Protocol):
    """Where a session plays and learns; a context manager that starts and stops its processes.

    It is entered before anything that a forked process should not inherit: threads, locks, the live view.
    """

    on_cpu: bool  # whether the driver process has its policies on the CPU, because others have the GPUs

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def learner(self, state: RunState) -> Learner:
        """Return the learner that the loop submits trajectories to."""
        ...

    def rollouts(self, context: RunContext, state: RunState, engines: Engines) -> RolloutBackend:
        """Return the backend that plays the run's matches. Raises UsageError if it cannot play this run.

        ``context`` has the devices of the driver process.
        """
        ...

    def usage(self) -> dict[str, Usage]:
        """Return the usage of each player behind a server that a process other than this one asked."""
        ...
