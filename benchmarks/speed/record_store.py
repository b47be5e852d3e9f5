"""Records a second through a learner's record store, from append to acknowledgement, and the size of its file.

    python -m benchmarks.speed.record_store [--records N] [--batch N] [--tokens N] [--repeats N] [--json]

A record is a trajectory of one turn: 400 tokens of prompt, 100 of reply with their log-probs, and the texts of both.
``beside``: one process appends batches and another, which was started before, leases each, reads it back and
acknowledges it, as a run and its learner do; play may be two batches ahead. ``alone``: one process does both by turns,
which is what one core does. ``file`` is the largest size of the file with its log.

Expected before the first measurement: 5,000 records a second in one process; a file of three batches and 8 MB.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.synchronize
import random
import tempfile
import time
from pathlib import Path

from arena.records import TokenTrace, Turn
from benchmarks.speed.timing import Figures, print_figures, speed_parser, spread
from learners.record_store.sqlite import SqliteRecordStore
from learners.trajectories import Evidence, Trajectory

MAX_STALENESS, LEARNER, FILE = 2, "main", "records.sqlite"
TEXT = "I hold the king, so whatever the other card is, it is lower, and I bet. "


def records(number: int, tokens: int) -> list[Trajectory]:
    """Return trajectories of one turn, no two of which have the same tokens."""
    rng = random.Random(0)
    trajectories = []
    for index in range(number):
        ids = tuple(rng.choices(range(150_000), k=tokens))
        prompt, reply = ids[: tokens * 4 // 5], ids[tokens * 4 // 5 :]
        trace = TokenTrace("main", prompt, reply, tuple(-rng.random() for _ in reply), None)
        turn = Turn(0, "first", "main", TEXT, ("pass", "bet"), 4 * TEXT, "bet", 1.0, trace)
        trajectories.append(
            Trajectory("kuhn_poker", "first", "main", 0, index, index // 8, ("main",), (turn,), (1.0,), 1.0)
        )
    return trajectories


def open_store(folder: Path, max_bytes: int = 2**40) -> SqliteRecordStore:
    """Return the store that is measured."""
    return SqliteRecordStore(folder / FILE, max_staleness=MAX_STALENESS, lease_seconds=600.0, max_bytes=max_bytes)


def alone(folder: Path, batch: list[Trajectory], batches: int) -> tuple[float, float]:
    """Append, lease and acknowledge by turns; return records a second and the largest file in MB."""
    SqliteRecordStore.create(folder / FILE, [LEARNER])
    nothing = [Evidence()] * len(batch)
    largest, start = 0, time.perf_counter()
    with open_store(folder) as store:
        for number in range(1, batches + 1):
            store.append(number, number - 1, batch, nothing)
            learn(store, number)
            largest = max(largest, size(folder))
    return len(batch) * batches / (time.perf_counter() - start), largest / 1e6


def beside(folder: Path, batch: list[Trajectory], batches: int) -> tuple[float, float]:
    """Append in this process and learn in another; return records a second and the largest file in MB."""
    SqliteRecordStore.create(folder / FILE, [LEARNER])
    ready = multiprocessing.Event()
    learner = multiprocessing.Process(target=learn_all, args=(folder, batches, ready), daemon=True)
    learner.start()
    ready.wait()
    nothing = [Evidence()] * len(batch)
    largest, start = 0, time.perf_counter()
    with open_store(folder) as store:
        for number in range(1, batches + 1):
            while number - store.progress(LEARNER).batch > MAX_STALENESS + 1:
                time.sleep(0.001)
            store.append(number, max(number - 1 - MAX_STALENESS, 0), batch, nothing)
            largest = max(largest, size(folder))
    learner.join()
    if learner.exitcode:
        raise RuntimeError(f"the learner ended with status {learner.exitcode}; its error is printed above")
    return len(batch) * batches / (time.perf_counter() - start), largest / 1e6


def learn_all(folder: Path, batches: int, ready: multiprocessing.synchronize.Event) -> None:
    """Learn all batches, as the learner's process."""
    ready.set()
    with open_store(folder) as store:
        for number in range(1, batches + 1):
            learn(store, number)


def learn(store: SqliteRecordStore, number: int) -> None:
    """Lease a batch as soon as it is there, and acknowledge it."""
    while (lease := store.lease(LEARNER, "here", time.time())) is None:
        time.sleep(0.001)
    if lease.batch != number or lease.dropped:
        raise RuntimeError(f"expected batch {number}, got batch {lease.batch} with {lease.dropped} dropped records")
    store.acknowledge(lease, "{}")
    store.delete_reports(number)


def size(folder: Path) -> int:
    """Return the bytes of the store's file with its log."""
    return sum(path.stat().st_size for path in folder.glob(f"{FILE}*"))


def measure(number: int, batch: int, tokens: int, repeats: int) -> Figures:
    """Return records/s and MB of both ways to use the store."""
    trajectories = records(batch, tokens)
    values: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, use in (("alone", alone), ("beside", beside)):
            with tempfile.TemporaryDirectory() as folder:
                rate, largest = use(Path(folder), trajectories, -(-number // batch))
            values.setdefault(name, []).append(rate)
            values.setdefault(f"{name}_file", []).append(largest)
    return spread(values)


def main() -> None:
    """Measure and print."""
    parser = speed_parser(__doc__)
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--batch", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    figures = measure(arguments.records, arguments.batch, arguments.tokens, arguments.repeats)
    print_figures(figures, "records/s, MB", ",.1f", as_json=arguments.json)


if __name__ == "__main__":
    main()
