"""The store that separate learners share: a durable queue of trajectories, and each learner's progress through it.

One process plays and appends batches, numbered consecutively; every learner reads each batch once, in order. A learner
leases the next batch, learns from it, and acknowledges it together with its report. Each learner reads all records of
a batch, not only those of its own policies: a credit rule may compare a trajectory with those of a policy that another
process trains (M-GRPO, arXiv 2511.13288, shares such statistics between servers).

A batch counts as learned from once it is acknowledged. Before it acknowledges, a learner saves its weights under a name
that holds the batch's number. A learner that dies in between finds the batch unacknowledged when it restarts, loads the
last acknowledged weights and repeats the same update. So nothing is lost, and nothing counts twice.

``SqliteRecordStore`` is the embedded store; a server's database needs only these methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from learners.trajectories import Evidence, Trajectory


class Lease(NamedTuple):
    """A batch that is reserved for one learner. A later lease of the same learner ends it."""

    learner: str
    batch: int
    token: int  # the number of this lease among the learner's
    trajectories: tuple[Trajectory, ...]  # empty if the batch is too old to learn from  # [N]
    evidence: tuple[Evidence, ...]  # as appended  # [N]
    dropped: int  # records left out because the weights that played them are too old


class LearnerProgress(NamedTuple):
    """A learner's progress through the queue."""

    batch: int  # the last acknowledged one
    consumed: int  # records learned from
    dropped: int  # records that were too old when they were leased


class LeaseLost(RuntimeError):
    """An acknowledgement came too late: the batch was leased again or acknowledged before."""


class RecordStore(Protocol):
    """The queue. Every call is one transaction: once it has returned, a kill does not undo it."""

    def append(
        self, batch: int, version: int, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]
    ) -> bool:
        """Append a batch, played by weights after ``version`` batches; return False if the store is full.

        A batch that was appended before is not changed. Raises ValueError for a batch that is not the next one.
        """
        ...

    def lease(self, learner: str, holder: str, now: float) -> Lease | None:
        """Return the learner's next batch; None if it is not appended yet, or another holder has it.

        A lease that has expired at ``now`` (seconds), or belongs to the same holder, is replaced.
        """
        ...

    def acknowledge(self, lease: Lease, report: str) -> None:
        """Count a batch as learned from and save the report. Raises LeaseLost, and changes nothing, if it is too late.

        Records that every learner has acknowledged are deleted.
        """
        ...

    def report(self, learner: str, batch: int) -> str | None:
        """Return a learner's report of a batch; None if it has not acknowledged the batch."""
        ...

    def progress(self, learner: str) -> LearnerProgress:
        """Return a learner's progress. Raises UsageError for a learner that the store was not created with."""
        ...

    def delete_reports(self, before: int) -> None:
        """Delete the reports of batches before ``before``."""
        ...
