"""Training processes that die where a test says, and the files that they leave.

They are forked from a server that has imported everything already, so one starts in a tenth of a second, and a test
can kill many.
"""

import importlib
import json
import multiprocessing
import os
import resource
import signal
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from league.population.results.match_store import STORE_FILE, MatchStore
from league.training.checkpoints.checkpoint import RECORDS_FILE
from league.training.starts.pool import POOL_FILE

CHANCE = ("time/", "memory/", "mfu/", "learners/replaced", "cluster/replaced")  # beginnings of names of others
TIMINGS = {"tokens_per_second", "seconds"}  # the metrics that differ from run to run, with those of time and memory

TINY = """
iterations = 6
snapshot_every = 2
threads = 1
episodes_kept = 3
games.kuhn_poker.matches = 64
model.hidden_size = 32
model.layers = 1
model.intermediate_size = 32
cold_start.steps = 5
cold_start.matches = 8
cold_start.batch_size = 32
evaluation.matches = 4
"""

# The same in free replies, with all that an update can have: adapters, a magnet, a reference.
TINY_FREE = """
threads = 1
iterations = 2
snapshot_every = 2
games.kuhn_poker.matches = 16
roles.reply = "free"
roles.on_illegal = "forfeit"
roles.max_reply_tokens = 4
policies.main = { weights = "lora", rank = 2 }
model = { hidden_size = 16, layers = 1, intermediate_size = 16 }
cold_start = { steps = 2, matches = 8 }
objective = { magnet = 0.1, magnet_every = 1, kl_reference = 0.1 }
optimizer = { inner_steps = 2, minibatch_prompts = 4, micro_batch_tokens = 64 }
evaluation.matches = 4
"""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "league.training.loop.session",
        "league.cli.training.train",
        "peft",
        "torch.utils.tensorboard",
        "transformers.models.qwen3.modeling_qwen3",
    ]
)
_ACCESSES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}


class Ended(NamedTuple):
    """How a process ended."""

    status: int  # -9 if it was killed
    output: str
    seconds: float


class TrainingProcess:
    """``league train`` in its own process.

    ``die_at = (part, n)``: it sends itself SIGKILL just before its n-th access, counted from 0, to a
    path below ``run_dir`` that has ``part`` in it. ``constants`` of modules are set before it starts, and no file that
    it writes can be larger than ``largest_file`` bytes.
    """

    def __init__(
        self,
        *arguments: str | Path,
        run_dir: Path,
        die_at: tuple[str, int] | None = None,
        constants: Mapping[str, float] | None = None,
        largest_file: int | None = None,
    ) -> None:
        self._log = run_dir.with_name(f"{run_dir.name}.log")
        self._log.unlink(missing_ok=True)
        words = ["train", *map(str, arguments), "--run-dir", str(run_dir)]
        self._process = _CONTEXT.Process(
            target=live, args=(words, self._log, str(run_dir), die_at, constants or {}, largest_file)
        )
        self._started = time.monotonic()
        self._process.start()
        self.pid = self._process.pid

    def children(self) -> list[int]:
        """Return the ids of its child processes, the oldest first; none once it is dead."""
        try:
            return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            return []

    def alive(self) -> bool:
        """Return whether it has not ended yet."""
        return self._process.is_alive()

    def end(self, within: float | None = None) -> Ended:
        """Wait for its end, or kill it when ``within`` seconds are over."""
        self._process.join(within)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        output = self._log.read_text() if self._log.exists() else ""
        return Ended(self._process.exitcode, output, time.monotonic() - self._started)


def league_train(*arguments: str | Path, run_dir: Path) -> Ended:
    """Run ``league train`` in its own process to its end."""
    return TrainingProcess(*arguments, run_dir=run_dir).end()


def live(
    words: list[str],
    log: Path,
    run_dir: str,
    die_at: tuple[str, int] | None,
    constants: Mapping[str, float],
    largest_file: int | None,
) -> None:
    """Run ``league`` with these arguments in this process, its output in ``log``, to its end or to ``die_at``."""
    for constant, value in constants.items():
        module, _, name = constant.rpartition(".")
        setattr(importlib.import_module(module), name, value)
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if die_at is not None:
        part, left = die_at

        def count(event: str, args: tuple[Any, ...]) -> None:
            nonlocal left
            if event in _ACCESSES and str(args[0]).startswith(run_dir) and part in str(args[0])[len(run_dir) :]:
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        sys.addaudithook(count)
    from league.cli import main

    status = main(words)
    sys.stdout.flush()
    sys.exit(status)


def is_reproducible(name: str) -> bool:
    """Return whether a metric is the same in every run of one configuration, whatever happens to its processes."""
    return name not in TIMINGS and not name.startswith(CHANCE)


def contents(run_dir: Path) -> dict[str, Any]:
    """Return a run's files, bit for bit, by name; metrics are without timings, and ``tb/`` is left out.

    ``results.sqlite`` and ``starts.sqlite`` are replaced by what they hold, since their pages may be in another order,
    and ``records.sqlite`` is left out.
    """
    files = {
        path.relative_to(run_dir).as_posix(): path.read_bytes()
        for path in sorted(run_dir.rglob("*"))
        if path.is_file()
        and path.name != ".lock"
        and path.parent.name != "tb"
        and not path.name.startswith((STORE_FILE, RECORDS_FILE, POOL_FILE))
    }
    with MatchStore(run_dir / STORE_FILE) as store:
        matches = {game: list(store.matches(game)) for game in store.games()}
    lines = map(json.loads, files["metrics.jsonl"].decode().splitlines())
    metrics = [{name: value for name, value in line.items() if is_reproducible(name)} for line in lines]
    return {**files, "metrics.jsonl": metrics, STORE_FILE: matches, POOL_FILE: starts_of(run_dir)}


def starts_of(run_dir: Path) -> list[list[Any]]:
    """Return every row of a run's pool of starts, in order; none where it has no pool."""
    if not (run_dir / POOL_FILE).exists():
        return []
    tables = {"starts": "name", "plays": "iteration, name", "iterations": "iteration"}
    with closing(sqlite3.connect(run_dir / POOL_FILE)) as pool:
        return [pool.execute(f"SELECT * FROM {table} ORDER BY {key}").fetchall() for table, key in tables.items()]
