"""Records a second that a learner's store takes, from appended to acknowledged, and how large its file grows.

    python -m benchmarks.record_store_speed [--records N] [--batch N] [--tokens N] [--repeats N] [--json]

A record is a trajectory of one turn: 400 tokens of prompt, 100 of reply with their log-probs, and what the seat saw and
said. One process appends batches and another, which was started before, leases each, reads it back whole and
acknowledges it, as a run and its learner do. Play may be two batches ahead. ``alone`` is one process that does both by
turns: what a core does. ``file`` is the largest that the file and its log ever were.

Expected before the first measurement: 5,000 records a second in one process; a file of three batches and 8 MB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.synchronize
import random
import statistics
import tempfile
import time
from pathlib import Path

from arena.records import TokenTrace, Turn
from learners.sqlite_record_store import SqliteRecordStore
from learners.trajectories import Trajectory

Figures = dict[str, dict[str, float]]
AHEAD, LEARNER, FILE = 2, "main", "records.sqlite"
SAID = "I hold the king, so whatever the other card is, it is lower, and I bet. "


def records(number: int, tokens: int) -> list[Trajectory]:
    """Return so many trajectories of one turn, no two of which have the same tokens."""
    rng = random.Random(0)
    made = []
    for index in range(number):
        ids = tuple(rng.choices(range(150_000), k=tokens))
        prompt, reply = ids[: tokens * 4 // 5], ids[tokens * 4 // 5 :]
        trace = TokenTrace("main", prompt, reply, tuple(-rng.random() for _ in reply), None)
        turn = Turn(0, "first", "main", SAID, ("pass", "bet"), 4 * SAID, "bet", 1.0, trace)
        made.append(Trajectory("kuhn_poker", "first", "main", 0, index, index // 8, ("main",), (turn,), (1.0,), 1.0))
    return made


def opened(folder: Path, most_bytes: int = 2**40) -> SqliteRecordStore:
    """Return the store that is measured."""
    return SqliteRecordStore(folder / FILE, max_staleness=AHEAD, lease_seconds=600.0, most_bytes=most_bytes)


def alone(folder: Path, batch: list[Trajectory], batches: int) -> tuple[float, float]:
    """Append, lease and acknowledge by turns; return records a second and the largest file in MB."""
    SqliteRecordStore.create(folder / FILE, [LEARNER])
    largest, start = 0, time.perf_counter()
    with opened(folder) as store:
        for number in range(1, batches + 1):
            store.append(number, number - 1, batch)
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
    largest, start = 0, time.perf_counter()
    with opened(folder) as store:
        for number in range(1, batches + 1):
            while number - store.progress(LEARNER).batch > AHEAD + 1:
                time.sleep(0.001)
            store.append(number, max(number - 1 - AHEAD, 0), batch)
            largest = max(largest, size(folder))
    learner.join()
    if learner.exitcode:
        raise RuntimeError(f"the learner ended with status {learner.exitcode}; its error stands above")
    return len(batch) * batches / (time.perf_counter() - start), largest / 1e6


def learn_all(folder: Path, batches: int, ready: multiprocessing.synchronize.Event) -> None:
    """Be the learner."""
    ready.set()
    with opened(folder) as store:
        for number in range(1, batches + 1):
            learn(store, number)


def learn(store: SqliteRecordStore, number: int) -> None:
    """Lease a batch as soon as it is there, and acknowledge it."""
    while (lease := store.lease(LEARNER, "here", time.time())) is None:
        time.sleep(0.001)
    if lease.batch != number or lease.dropped:
        raise RuntimeError(f"batch {number} was expected, and {lease.batch} came, {lease.dropped} of it too old")
    store.acknowledge(lease, "{}")
    store.forget_reports(number)


def size(folder: Path) -> int:
    """Return the bytes of the store with its log."""
    return sum(path.stat().st_size for path in folder.glob(f"{FILE}*"))


def measure(number: int, batch: int, tokens: int, repeats: int) -> Figures:
    """Return min, median and max over the repeats."""
    made, taken = records(batch, tokens), dict[str, list[float]]()
    for _ in range(repeats):
        for name, act in (("alone", alone), ("beside", beside)):
            with tempfile.TemporaryDirectory() as folder:
                rate, largest = act(Path(folder), made, -(-number // batch))
            taken.setdefault(name, []).append(rate)
            taken.setdefault(f"{name}_file", []).append(largest)
    return {
        name: {"min": min(values), "median": statistics.median(values), "max": max(values)}
        for name, values in taken.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--batch", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    figures = measure(arguments.records, arguments.batch, arguments.tokens, arguments.repeats)
    if arguments.json:
        print(json.dumps(figures))
        return
    print(f"{'':20}" + "".join(f"{key:>12}" for key in ("min", "median", "max")))
    for name, values in figures.items():
        print(f"{name:20}" + "".join(f"{values[key]:>12,.1f}" for key in ("min", "median", "max")))


if __name__ == "__main__":
    main()
