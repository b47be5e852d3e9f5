"""Checkpoints: everything that a run needs to resume, on disk.

``state/iteration-000123/`` holds ``state.json``, a safetensors file for each policy, the trajectories that policies
have gathered, and matches that were played ahead. It appears by one rename, and all but the newest are removed
afterwards. The payoff table is folded from ``state/journal.jsonl``, which has the sums of each iteration in order. The
ratings, which only a snapshot changes, have a separate file. So the cost of a checkpoint does not grow with the
population. Every match goes to ``results.sqlite`` when its batch ends; matches that a resumed run plays again are
removed first.

Every file is checked against its SHA-256 before it is read: ``manifest.json`` has the checksum of every file of the
checkpoint, and ``state.json`` those of the ratings, of the journal's lines, of the matches and of the starts so far.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial as partial_call
from pathlib import Path

from pydantic import TypeAdapter

from arena.lm.language_model import LanguageModel
from arena.replays import (
    episode_from_record,
    episode_to_record,
    load_episodes,
    request_from_record,
    request_to_record,
    save_episodes,
)
from games.common.errors import DamagedFile, UsageError
from games.common.files import atomic_write, sync_folder, sync_tree
from games.common.sqlite_file import ForeignFile
from league.config import RunConfig
from league.population.results import journal
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.results.ratings import Ratings
from league.population.storage.immutable_folder import check_manifest, write_manifest
from league.population.storage.population import Population
from league.population.storage.run_dir import DISTILLED, SET_ASIDE, STATE_FOLDER
from league.training.checkpoints.learner_checkpoint import PENDING, read_pending, read_policies, write_policies
from league.training.checkpoints.run_state import Checkpoint, RunState, StreamBatch, new_state
from league.training.starts.pool import POOL_FILE, StartPool
from learners.parallel.saved_shards import wait_for
from learners.update.policy import Policy

RECORDS_FILE = "records.sqlite"  # of a run with learner processes
LEARNERS_FOLDER = "learners"  # of a run with learner processes
JOURNAL_FILE = "journal.jsonl"
STATE_FILE = "state.json"
_CHECKPOINT = TypeAdapter(Checkpoint)
_PREFIX = "iteration-"
_RATINGS = "ratings-"
_NUMBERED = re.compile(rf"(?:{_PREFIX}|{_RATINGS})(\d+)(?:\.json)?")
_AHEAD = "ahead-"
_STREAM = "stream-"


def save_checkpoint(run_dir: Path, state: RunState, keep: int, then: Callable[[], None] = lambda: None) -> None:
    """Write the state after an iteration; when this returns, a kill loses nothing before it.

    Where policies are shards, that is so once their parts are written, beside training (``finish_checkpoint``). Until
    the checkpoint is there, the one before it is the newest. ``then`` is called when it is there. The newest ``keep``
    checkpoints stay. An error, such as a full disk, never leaves half a checkpoint.
    """
    finish_checkpoint(state)
    write_checkpoint(run_dir, state, keep, then)


def write_checkpoint(
    run_dir: Path, state: RunState, keep: int, then: Callable[[], None] = lambda: None, *, results: bool = True
) -> None:
    """Do what ``save_checkpoint`` does once the checkpoint before is there, or was given up.

    ``results``: of this iteration, which were written if the same checkpoint was given up.
    """
    state.matches_sha256 = state.store.digest(state.iteration)
    state.starts_sha256 = state.starts.digest(state.iteration) if state.starts is not None else ""
    folder = folder_of(run_dir, state.iteration)
    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        writing = write_policies(partial, state.policies, state.pending)
        if results:
            write_results(run_dir, state)
        for iteration, episodes in state.played_ahead.items():
            save_episodes(partial / f"{_AHEAD}{iteration:06d}.jsonl", episodes)
        for iteration, batch in state.streaming.items():
            (partial / f"{_STREAM}{iteration:06d}.json").write_text(_batch_to_json(batch), encoding="utf-8")
        (partial / STATE_FILE).write_bytes(_CHECKPOINT.dump_json(state))
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    complete = partial_call(_complete, run_dir, state.policies, partial, folder, keep, writing, then)
    if writing:
        beside = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        state.saving = beside.submit(complete)
        beside.shutdown(wait=False)
    else:
        complete()


def finish_checkpoint(state: RunState) -> None:
    """Wait for the checkpoint that is written beside training, if there is one; raise the error that it met."""
    saving, state.saving = state.saving, None
    if saving is not None:
        saving.result()


def _complete(
    run_dir: Path,
    policies: Mapping[str, Policy],
    partial: Path,
    folder: Path,
    keep: int,
    writing: Sequence[Future[None]],
    then: Callable[[], None],
) -> None:
    """Let a checkpoint appear when all its parts are written."""
    try:
        for part in writing:
            wait_for(part)
        write_manifest(partial)
        sync_tree(partial)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync_folder(folder.parent)
    _remove_stale(run_dir, math.inf, keep)
    for name, policy in policies.items():
        with suppress(UsageError):  # a damaged file may name any state
            policy.keep_elsewhere(
                path for place in (STATE_FOLDER, SET_ASIDE) for path in (run_dir / place).glob(f"**/{name}.safetensors")
            )
    then()


def write_results(run_dir: Path, state: RunState) -> None:
    """Write an iteration's results to the journal."""
    path = run_dir / STATE_FOLDER / JOURNAL_FILE
    state.journal_sha256 = journal.append(path, state.iteration, state.unsaved, state.journal_sha256)
    state.unsaved = []


def load_checkpoint(config: RunConfig, run_dir: Path, policies: dict[str, Policy]) -> RunState:
    """Return the state of the newest checkpoint, with the weights restored into ``policies``.

    Newer snapshots, matches and journal lines, which a killed process left, are removed. Raises DamagedFile, and
    removes nothing, if any file has changed since it was saved.
    """
    folder = newest_checkpoint(run_dir)
    saved = verified_record(folder)
    ratings = verified_ratings(ratings_file(run_dir, saved.rated_at), saved)
    replayed = verified_journal(run_dir, saved)
    check_matches(run_dir, saved)
    check_starts(run_dir, saved)
    read_policies(folder, policies)
    state = new_state(config, run_dir, policies, saved)
    state.population.discard_after(saved.rated_at)
    if (run_dir / DISTILLED).is_dir():
        Population(run_dir / DISTILLED).discard_after(saved.rated_at)
    state.store.discard_after(saved.iteration)
    if state.starts is not None:
        state.starts.discard_after(saved.iteration)
    journal.truncate(run_dir / STATE_FOLDER / JOURNAL_FILE, replayed)
    state.payoffs.apply(replayed.results)
    _remove_stale(run_dir, saved.iteration, config.kept_checkpoints)
    state.ratings = ratings
    state.pending = read_pending(folder)
    state.played_ahead = {
        int(path.stem.removeprefix(_AHEAD)): load_episodes(path) for path in sorted(folder.glob(f"{_AHEAD}*"))
    }
    state.streaming = {
        int(path.stem.removeprefix(_STREAM)): _batch_from_json(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob(f"{_STREAM}*"))
    }
    return state


def restore_learning(run_dir: Path, state: RunState) -> int | None:
    """Give a state's policies, gathered turns and baselines what the newest checkpoint has; return its iteration.

    None: there is no checkpoint.
    """
    if not has_checkpoint(run_dir):
        return None
    folder = newest_checkpoint(run_dir)
    record = verified_record(folder)
    read_policies(folder, state.policies)
    state.pending, state.credit, state.values = read_pending(folder), record.credit, record.values
    return record.iteration


def weights_after(run_dir: Path, iteration: int, policy: Policy) -> LanguageModel:
    """Return a model with the weights that a policy had after an iteration whose checkpoint is still kept.

    Raises DamagedFile if the checkpoint is not there, or has changed since it was saved.
    """
    folder = folder_of(run_dir, iteration)
    if not folder.is_dir():
        raise DamagedFile(folder, "it is missing, but matches that started with its weights need it")
    check_manifest(folder)
    return policy.former_model(folder / f"{policy.name}.safetensors")


def _batch_to_json(batch: StreamBatch) -> str:
    requests = [request_to_record(request) for request in batch.requests]
    episodes = [episode_to_record(episode) for _, episode in sorted(batch.episodes.items())]
    return json.dumps({"requests": requests, "episodes": episodes}, allow_nan=False)


def _batch_from_json(text: str) -> StreamBatch:
    fields = json.loads(text)
    episodes = [episode_from_record(record) for record in fields["episodes"]]
    requests = [request_from_record(record) for record in fields["requests"]]
    return StreamBatch(requests, {episode.request.index: episode for episode in episodes})


def write_record(folder: Path, record: Checkpoint) -> None:
    """Write the record of a checkpoint into its folder, and then the manifest of all its files; force them to disk."""
    (folder / STATE_FILE).write_bytes(_CHECKPOINT.dump_json(record))
    write_manifest(folder)
    sync_tree(folder)


def _renamed(record: bytes) -> bytes:
    """Return a record with the current names of its fields; one of them had another name in older runs."""
    facts = json.loads(record)
    if isinstance(facts, dict) and "begun" in facts:
        facts["origins"] = facts.pop("begun")
        return json.dumps(facts).encode()
    return record


def verified_record(folder: Path) -> Checkpoint:
    """Return the record of a checkpoint. Raises DamagedFile if any of its files has changed since it was saved."""
    check_manifest(folder)
    try:
        record = _CHECKPOINT.validate_json(_renamed((folder / STATE_FILE).read_bytes()))
    except ValueError as error:
        raise DamagedFile(folder / STATE_FILE, f"it is of another version: {error}") from error
    if record.iteration != number_of(folder):
        raise DamagedFile(folder, f"it is the checkpoint of iteration {record.iteration} under another name")
    return record


def verified_ratings(path: Path, record: Checkpoint) -> Ratings:
    """Return the ratings of a checkpoint from their file. Raises DamagedFile if it has changed since it was saved."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != record.ratings_sha256:
        raise DamagedFile(path, "it has changed since it was saved")
    return Ratings.from_json(json.loads(content))


def verified_journal(run_dir: Path, record: Checkpoint) -> journal.Replay:
    """Return the journal up to a checkpoint. Raises DamagedFile if a line is missing or has changed."""
    path = run_dir / STATE_FOLDER / JOURNAL_FILE
    replayed = journal.replay(path, record.iteration)
    if replayed.checksum != record.journal_sha256:
        raise DamagedFile(path, f"it lacks lines of the iterations up to {record.iteration}")
    return replayed


def check_results(run_dir: Path, record: Checkpoint) -> None:
    """Raise DamagedFile if ratings, journal or matches have changed since a checkpoint was saved."""
    verified_ratings(ratings_file(run_dir, record.rated_at), record)
    verified_journal(run_dir, record)
    check_matches(run_dir, record)
    check_starts(run_dir, record)


def check_matches(run_dir: Path, record: Checkpoint) -> None:
    """Raise DamagedFile if the matches up to a checkpoint are missing, or differ from those that were played."""
    path = run_dir / STORE_FILE
    if not path.is_file():
        raise DamagedFile(path, "it is missing")
    try:
        with MatchStore(path, reads=True) as store:
            store.check_integrity()  # the digest does not read the indices of names
            digest = store.digest(record.iteration)
    except DamagedFile as error:
        raise DamagedFile(path, error.what) from error  # there are more remedies than the store knows
    except ForeignFile as error:
        raise DamagedFile(path, "it holds no matches") from error
    if digest != record.matches_sha256:
        raise DamagedFile(path, f"its matches of the iterations up to {record.iteration} are not those of the run")


def check_starts(run_dir: Path, record: Checkpoint) -> None:
    """Raise DamagedFile if the pool of starts up to a checkpoint is missing, or has changed."""
    path = run_dir / POOL_FILE
    if not record.starts_sha256:
        return
    if not path.is_file():
        raise DamagedFile(path, "it is missing")
    try:
        with StartPool(path, reads=True) as pool:
            pool.check_integrity()
            digest = pool.recomputed_digest(record.iteration)
    except DamagedFile as error:
        raise DamagedFile(path, error.what) from error
    except ForeignFile as error:
        raise DamagedFile(path, "it holds no starts") from error
    if digest != record.starts_sha256:
        raise DamagedFile(path, f"its starts up to iteration {record.iteration} are not those of the run")


def clear_unfinished(folder: Path, policies: Iterable[str]) -> None:
    """Remove from a checkpoint the matches played ahead, and the trajectories of all policies except these."""
    for path in [*folder.glob(f"{_AHEAD}*"), *folder.glob(f"{_STREAM}*"), *folder.glob(f"*{PENDING}")]:
        if path.name.removesuffix(PENDING) not in policies:
            path.unlink()


def save_ratings(run_dir: Path, state: RunState) -> None:
    """Write the ratings after a snapshot, and publish them; the older file stays until no checkpoint refers to it."""
    content = json.dumps(state.ratings.to_json()).encode()
    state.rated_at, state.ratings_sha256 = state.iteration, hashlib.sha256(content).hexdigest()
    atomic_write(ratings_file(run_dir, state.rated_at), content)
    _publish_ratings(run_dir, state, content)


def publish(run_dir: Path, state: RunState) -> None:
    """Write payoffs, ratings and mixtures when the loop ends.

    The payoffs, of all pairs that ever met, are for people; commands and a resumed run read the results themselves. So
    they are not written at each snapshot, as ratings and mixtures are.
    """
    atomic_write(run_dir / "payoffs.json", json.dumps(state.payoffs.to_json()))
    _publish_ratings(run_dir, state, json.dumps(state.ratings.to_json()))


def _publish_ratings(run_dir: Path, state: RunState, ratings: bytes | str) -> None:
    """Write ratings and mixtures for the commands that read the run."""
    atomic_write(run_dir / "ratings.json", ratings)
    atomic_write(run_dir / "mixtures.json", json.dumps(state.mixtures))


def checkpoints(run_dir: Path) -> list[Path]:
    """Return the folders of the complete checkpoints, the oldest first."""
    folders = (run_dir / STATE_FOLDER).glob(f"{_PREFIX}*")
    return sorted((folder for folder in folders if _NUMBERED.fullmatch(folder.name)), key=number_of)


def newest_checkpoint(run_dir: Path) -> Path:
    """Return the folder of the newest complete checkpoint. Raises IndexError if there is none."""
    return checkpoints(run_dir)[-1]


def has_checkpoint(run_dir: Path) -> bool:
    """Return whether there is a checkpoint to resume from; there is none before the first snapshot is measured."""
    return bool(checkpoints(run_dir))


def finished_iterations(run_dir: Path) -> int:
    """Return the iteration of the newest checkpoint; 0 if there is none."""
    return number_of(newest_checkpoint(run_dir)) if has_checkpoint(run_dir) else 0


def clear_state(run_dir: Path) -> None:
    """Remove state, matches, records and snapshots of a run that was killed before its first checkpoint."""
    for path in [*run_dir.glob(f"{STORE_FILE}*"), *run_dir.glob(f"{POOL_FILE}*")]:
        path.unlink()
    clear_learners(run_dir)
    shutil.rmtree(run_dir / STATE_FOLDER, ignore_errors=True)
    (run_dir / STATE_FOLDER).mkdir()
    Population(run_dir / "population").discard_after(-1)


def clear_learners(run_dir: Path) -> None:
    """Remove the files of learner processes; the checkpoint has everything that matters."""
    for path in sorted(run_dir.glob(f"{RECORDS_FILE}*")):  # the database before its journals
        path.unlink()
    shutil.rmtree(run_dir / LEARNERS_FOLDER, ignore_errors=True)


def _remove_stale(run_dir: Path, newest: float, keep: int) -> None:
    """Remove all but the newest checkpoints, incomplete ones too, and the ratings that none of these refers to.

    Ratings of an iteration after the newest checkpoint's were left by a killed process.
    """
    newest_checkpoints = checkpoints(run_dir)[-keep:]
    rated = {number_of(path): path for path in (run_dir / STATE_FOLDER).glob(f"{_RATINGS}*.json")}
    needed = max(
        (number for number in rated if number <= number_of(newest_checkpoints[0])), default=0
    )  # by the oldest of them
    for path in (run_dir / STATE_FOLDER).iterdir():
        if path.name.lstrip(".").startswith(_PREFIX) and path not in newest_checkpoints:
            shutil.rmtree(path)
    for number, path in rated.items():
        if not needed <= number <= newest:
            path.unlink()


def number_of(path: Path) -> int:
    """Return the iteration in the name of a checkpoint or a file of ratings; -1 for another name."""
    match = _NUMBERED.fullmatch(path.name)
    return int(match[1]) if match else -1


def ratings_file(run_dir: Path, iteration: int) -> Path:
    """Return the file of the ratings after a snapshot's iteration."""
    return run_dir / STATE_FOLDER / f"{_RATINGS}{iteration:06d}.json"


def folder_of(run_dir: Path, iteration: int) -> Path:
    """Return the folder of an iteration's checkpoint."""
    return run_dir / STATE_FOLDER / f"{_PREFIX}{iteration:06d}"
