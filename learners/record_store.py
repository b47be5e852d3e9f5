"""What separate learners share: a durable log of played trajectories, and how far each learner has come in it.

One process plays and appends batches, numbered on from where the log begins; every learner reads each batch once, in
order. A learner leases the next batch, learns from it, and acknowledges it together with its report. Each learner reads
all records of a batch, not only those of its own policies: what a credit rule compares a trajectory with may have been
played by a policy that another process trains (M-GRPO, arXiv 2511.13288, shares such statistics between servers).

Acknowledging is the one moment at which a batch counts as learned from. A learner makes its weights durable before it,
under a name that says after which batch; whoever dies in between finds the batch unacknowledged, goes on from its last
acknowledged weights and makes the same ones again. So nothing is lost, and nothing counts twice.

``SqliteRecordStore`` is the embedded store; a server's database needs only these methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from learners.trajectories import Trajectory


class Lease(NamedTuple):
    """A batch that one learner works on. A later lease of the same learner ends it."""

    learner: str
    batch: int
    token: int  # which lease of this learner's it is
    trajectories: tuple[Trajectory, ...]  # none if the batch is too old to learn from
    dropped: int  # records left out because they were played by weights that are too old


class Progress(NamedTuple):
    """How far a learner has come."""

    batch: int  # the last one it acknowledged
    consumed: int  # records it has learned from
    dropped: int  # records that were too old when their turn came


class LeaseLost(RuntimeError):
    """An acknowledgement came too late: the batch had been leased again, or acknowledged."""


class RecordStore(Protocol):
    """The log. Every call is one transaction: when it returns, a kill does not undo it."""

    def append(self, batch: int, version: int, trajectories: Sequence[Trajectory]) -> bool:
        """Add a whole batch, played by weights after ``version`` batches; return False if there is no room now.

        A batch that was added before is left as it is. Raises ValueError for a batch that is not the next one.
        """
        ...

    def lease(self, learner: str, holder: str, now: float) -> Lease | None:
        """Return the learner's next batch; None if it was not added yet, or another holder has it.

        A lease that has expired at ``now`` (seconds), or is the holder's own, is given anew.
        """
        ...

    def acknowledge(self, lease: Lease, report: str) -> None:
        """Count a batch as learned from and keep the report. Raises LeaseLost, and changes nothing, if it is too late.

        Records that every learner has acknowledged are deleted.
        """
        ...

    def report(self, learner: str, batch: int) -> str | None:
        """Return what a learner reported of a batch; None if it has not acknowledged it."""
        ...

    def progress(self, learner: str) -> Progress:
        """Return how far a learner has come. Raises UsageError for one that the log does not know."""
        ...

    def forget_reports(self, before: int) -> None:
        """Delete the reports of batches before ``before``."""
        ...
