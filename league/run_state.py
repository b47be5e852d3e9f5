"""Everything a run would lose if it were killed, to and from disk.

``state/iteration-000123/`` holds one safetensors file a policy and ``state.json``; it appears by one
rename, and older ones go after it. The payoff table is folded from ``journal.jsonl``, so saving costs
the same however large the population is.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from games.errors import UsageError
from games.files import atomic_write, sync_folder
from league import journal
from league.config import RunConfig
from league.payoffs import PayoffTable, Result
from league.population import Population
from league.ratings import Ratings
from learners.policy import Policy

STATE_FOLDER = "state"
JOURNAL_FILE = "journal.jsonl"


@dataclass(slots=True)
class RunState:
    """A run between two iterations."""

    policies: dict[str, Policy]  # by name
    population: Population
    payoffs: PayoffTable
    ratings: Ratings
    credit: dict[str, Any] = field(default_factory=dict)  # what running baselines remember
    iteration: int = 0  # finished iterations
    next_match: int = 0  # index of the next match
    news: list[Result] = field(default_factory=list)  # of the iteration that is not saved yet

    def record(self, results: list[Result]) -> None:
        """Fold results into the payoff table and keep them for the journal."""
        self.payoffs.apply(results)
        self.news += results


def new_state(config: RunConfig, run_dir: Path, policies: dict[str, Policy]) -> RunState:
    """Return the state of a run before its first iteration."""
    return RunState(
        policies,
        Population(run_dir / "population"),
        PayoffTable(live=policies, forgetting=config.matchmaking.forgetting),
        Ratings(config.evaluation.anchors),
    )


def save_state(run_dir: Path, state: RunState) -> None:
    """Write the state of a finished iteration; when this returns, a kill loses nothing before it."""
    journal.append(run_dir / JOURNAL_FILE, state.iteration, state.news)
    state.news = []
    folder = run_dir / STATE_FOLDER / _name(state.iteration)
    partial = folder.with_name(f".{folder.name}")
    for stale in (partial, folder):
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, policy in state.policies.items():
        policy.save(partial / f"{name}.safetensors")
    numbers = {
        "iteration": state.iteration,
        "next_match": state.next_match,
        "credit": state.credit,
        "policies": sorted(state.policies),
        "ratings_at": _newest_step(state),
    }
    atomic_write(partial / "state.json", json.dumps(numbers))
    _sync_files(partial)
    partial.rename(folder)
    sync_folder(folder.parent)
    for older in folder.parent.iterdir():
        if older.is_dir() and older != folder:
            shutil.rmtree(older, ignore_errors=True)


def save_ratings(run_dir: Path, state: RunState) -> None:
    """Write the ratings as they are after the newest snapshot; older versions stay until it is in a state."""
    newest = _ratings_file(run_dir, _newest_step(state))
    atomic_write(newest, json.dumps(state.ratings.to_json()))


def publish(run_dir: Path, state: RunState) -> None:
    """Write ``payoffs.json`` and ``ratings.json`` for those who look at the run."""
    atomic_write(run_dir / "payoffs.json", json.dumps(state.payoffs.to_json()))
    atomic_write(run_dir / "ratings.json", json.dumps(state.ratings.to_json()))


def load_state(config: RunConfig, run_dir: Path, policies: dict[str, Policy]) -> RunState:
    """Return the newest saved state with the policies' weights restored in place.

    What a killed process did after it is undone: newer snapshots and journal lines are removed.
    """
    folder = newest_state(run_dir)
    numbers = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    for name, policy in policies.items():
        policy.restore(folder / f"{name}.safetensors")
    state = new_state(config, run_dir, policies)
    state.population.discard_after(numbers["ratings_at"])
    state.payoffs.apply(journal.replay(run_dir / JOURNAL_FILE, numbers["iteration"]))
    ratings = _ratings_file(run_dir, numbers["ratings_at"])
    state.ratings = Ratings.from_json(json.loads(ratings.read_text(encoding="utf-8")))
    state.credit, state.iteration, state.next_match = numbers["credit"], numbers["iteration"], numbers["next_match"]
    return state


def newest_state(run_dir: Path) -> Path:
    """Return the folder of the newest whole state. Raises UsageError where there is none."""
    folders = sorted((run_dir / STATE_FOLDER).glob("iteration-*"))
    if not folders:
        raise UsageError(
            f"{run_dir} holds no saved state to resume from. Start it anew without --resume, in an empty directory."
        )
    return folders[-1]


def _newest_step(state: RunState) -> int:
    return max((snapshot.step for snapshot in state.population.all()), default=0)


def _name(iteration: int) -> str:
    return f"iteration-{iteration:06d}"


def _ratings_file(run_dir: Path, step: int) -> Path:
    return run_dir / STATE_FOLDER / f"ratings-{step:06d}.json"


def _sync_files(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)
