"""A gallery of tasks for people to read: the newest that are solved, possible and out of reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from league.training.starts.frontier import bands
from league.training.starts.measured import StoredStart

SHOWN = 8  # of each band
MOST_LETTERS = 160  # of a task


def gallery(starts: Sequence[StoredStart], heading: str) -> str:
    """Return the newest tasks of each band with solve rate, matches, iteration of birth and author, indented."""
    return "\n".join([heading, *_lines(starts)])


def _lines(starts: Sequence[StoredStart]) -> Iterator[str]:
    for name, members in bands(starts).items():
        yield f"\n{name.replace('_', ' ')}: {len(members)}"
        for start in sorted(members, key=lambda start: (-start.born, start.name))[:SHOWN]:
            task = start.start.task or f"deal {start.start.seed}"
            task = task if len(task) <= MOST_LETTERS else f"{task[:MOST_LETTERS]} …"
            facts = f"{start.rate:.0%} of {start.plays}, size {start.size}, by {start.author}, born {start.born}"
            yield f"  {task!r}: {facts}"
