"""Checkpoints: everything that a run needs to resume, on disk.

``state/iteration-000123/`` holds ``state.json``, a safetensors file for each policy, the trajectories that policies
have gathered, and matches that were played ahead. It appears by one rename, and older ones are removed afterwards. The
payoff table is folded from ``state/journal.jsonl``, which has the sums of each iteration in order. The ratings, which
only a snapshot changes, have a file of their own. So a checkpoint costs the same however large the population is. Every
match goes to ``results.sqlite`` when its batch ends; matches that a resumed run plays again are removed first.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter

from arena.replays import load_episodes, save_episodes
from games.common.files import atomic_write, sync_files, sync_folder
from league.config import RunConfig
from league.results import journal
from league.results.match_store import STORE_FILE
from league.results.ratings import Ratings
from league.storage.learner_checkpoint import PENDING, read_pending, read_policies, write_policies
from league.storage.population import Population
from league.storage.run_dir import STATE_FOLDER
from league.storage.run_state import Checkpoint, RunState, new_state
from learners.update.policy import Policy

RECORDS_FILE = "records.sqlite"  # of a run with learner processes
LEARNERS_FOLDER = "learners"  # of a run with learner processes
JOURNAL_FILE = "journal.jsonl"
STATE_FILE = "state.json"
_CHECKPOINT = TypeAdapter(Checkpoint)
_PREFIX = "iteration-"
_RATINGS = "ratings-"
_AHEAD = "ahead-"


def save_checkpoint(run_dir: Path, state: RunState) -> None:
    """Write the state after an iteration; when this returns, a kill loses nothing before it."""
    journal.append(run_dir / STATE_FOLDER / JOURNAL_FILE, state.iteration, state.unsaved)
    state.unsaved = []
    folder = run_dir / STATE_FOLDER / f"{_PREFIX}{state.iteration:06d}"
    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    write_policies(partial, state.policies, state.pending)
    for iteration, episodes in state.played_ahead.items():
        save_episodes(partial / f"{_AHEAD}{iteration:06d}.jsonl", episodes)
    write_record(partial, state)
    sync_files(partial)
    partial.rename(folder)
    sync_folder(folder.parent)
    _remove_older(folder, _ratings_file(run_dir, state.rated_at))


def load_checkpoint(config: RunConfig, run_dir: Path, policies: dict[str, Policy]) -> RunState:
    """Return the state of the newest checkpoint, with the weights restored into ``policies``.

    Newer snapshots, matches and journal lines, which a killed process left, are removed.
    """
    folder = newest_checkpoint(run_dir)
    saved = read_record(folder)
    read_policies(folder, policies)
    state = new_state(config, run_dir, policies, saved)
    state.population.discard_after(saved.rated_at)
    state.store.discard_after(saved.iteration)
    state.payoffs.apply(journal.replay(run_dir / STATE_FOLDER / JOURNAL_FILE, saved.iteration))
    ratings = _ratings_file(run_dir, saved.rated_at)
    _remove_older(folder, ratings)
    state.ratings = Ratings.from_json(json.loads(ratings.read_text(encoding="utf-8")))
    state.pending = read_pending(folder)
    state.played_ahead = {
        int(path.stem.removeprefix(_AHEAD)): load_episodes(path) for path in sorted(folder.glob(f"{_AHEAD}*"))
    }
    return state


def write_record(folder: Path, record: Checkpoint) -> None:
    """Write the record of a checkpoint into its folder."""
    atomic_write(folder / STATE_FILE, _CHECKPOINT.dump_json(record).decode())


def read_record(folder: Path) -> Checkpoint:
    """Return the record of a checkpoint."""
    return _CHECKPOINT.validate_json((folder / STATE_FILE).read_bytes())


def clear_unfinished(folder: Path, policies: Iterable[str]) -> None:
    """Remove from a checkpoint the matches played ahead, and the trajectories of all policies but these."""
    for path in [*folder.glob(f"{_AHEAD}*"), *folder.glob(f"*{PENDING}")]:
        if path.name.removesuffix(PENDING) not in policies:
            path.unlink()


def save_ratings(run_dir: Path, state: RunState) -> None:
    """Write the ratings after a snapshot; the older file stays until a checkpoint refers to the new one."""
    state.rated_at = state.iteration
    atomic_write(_ratings_file(run_dir, state.rated_at), json.dumps(state.ratings.to_json()))


def publish(run_dir: Path, state: RunState) -> None:
    """Write payoffs, ratings and mixtures for the commands that read the run."""
    atomic_write(run_dir / "payoffs.json", json.dumps(state.payoffs.to_json()))
    atomic_write(run_dir / "ratings.json", json.dumps(state.ratings.to_json()))
    atomic_write(run_dir / "mixtures.json", json.dumps(state.mixtures))


def newest_checkpoint(run_dir: Path) -> Path:
    """Return the folder of the newest complete checkpoint. Raises ValueError where there is none."""
    return max((run_dir / STATE_FOLDER).glob(f"{_PREFIX}*"))


def has_checkpoint(run_dir: Path) -> bool:
    """Return whether there is a checkpoint to resume from; there is none before the first snapshot is measured."""
    return any((run_dir / STATE_FOLDER).glob(f"{_PREFIX}*"))


def finished_iterations(run_dir: Path) -> int:
    """Return the iteration of the newest checkpoint; 0 where there is none."""
    return read_record(newest_checkpoint(run_dir)).iteration if has_checkpoint(run_dir) else 0


def clear_state(run_dir: Path) -> None:
    """Remove state, matches, records and snapshots of a run that was killed before its first checkpoint."""
    for path in run_dir.glob(f"{STORE_FILE}*"):
        path.unlink()
    clear_learners(run_dir)
    shutil.rmtree(run_dir / STATE_FOLDER, ignore_errors=True)
    (run_dir / STATE_FOLDER).mkdir()
    Population(run_dir / "population").discard_after(-1)


def clear_learners(run_dir: Path) -> None:
    """Remove the files of learner processes; the checkpoint has everything that counts."""
    for path in sorted(run_dir.glob(f"{RECORDS_FILE}*")):  # the database before its journals
        path.unlink()
    shutil.rmtree(run_dir / LEARNERS_FOLDER, ignore_errors=True)


def _remove_older(folder: Path, ratings: Path) -> None:
    """Remove all checkpoints but the one in ``folder``, incomplete ones included, and all ratings but its own."""
    for older in folder.parent.iterdir():
        if older.name.lstrip(".").startswith(_PREFIX) and older != folder:
            shutil.rmtree(older)
        elif older.name.startswith(_RATINGS) and older != ratings:
            older.unlink()


def _ratings_file(run_dir: Path, iteration: int) -> Path:
    return run_dir / STATE_FOLDER / f"{_RATINGS}{iteration:06d}.json"
