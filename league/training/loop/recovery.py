"""Recovery from damaged state, and rewinding a run with ``league train --resume --from N``.

Rewinding to an intact checkpoint rebuilds what other files allow: the journal from the stored matches, the ratings from
their published copy, policy tables from snapshots, learners' files from the checkpoint. Replaced files are kept in
``RUN/set_aside``.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from games.common import plugins
from games.common.errors import DamagedFile, UsageError
from games.common.files import atomic_write, link, sync_folder
from games.common.sealed_json import read_sealed
from league.population.evaluation.policy_tables import IF_DAMAGED
from league.population.results import journal
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.storage.immutable_folder import MANIFEST_FILE
from league.population.storage.run_dir import SET_ASIDE, STATE_FOLDER
from league.training.board.metrics_log import (
    METRICS_FILE,
    MIXTURES_FILE,
    mixtures_line,
    read_metrics,
    read_mixtures,
    readable_lines,
)
from league.training.checkpoints.checkpoint import (
    JOURNAL_FILE,
    LEARNERS_FOLDER,
    RECORDS_FILE,
    STATE_FILE,
    check_matches,
    check_starts,
    checkpoints,
    clear_learners,
    finished_iterations,
    number_of,
    ratings_file,
    verified_journal,
    verified_ratings,
    verified_record,
    write_record,
)
from league.training.checkpoints.played import PlayedMatches
from league.training.checkpoints.run_state import Checkpoint
from league.training.starts.pool import POOL_FILE


@contextmanager
def telling_what_to_do(run_dir: Path) -> Iterator[None]:
    """Add to the error of a damaged file what can be done about it."""
    try:
        yield
    except DamagedFile as error:
        if error.remedy:
            raise
        raise UsageError(f"{error} {_remedy(run_dir)}") from error


def go_back(run_dir: Path, iteration: int) -> list[str]:
    """Make an iteration's checkpoint the newest, and everything else agree with it; return what was done.

    The caller holds the run's lock. Raises UsageError for an iteration without a checkpoint; raises DamagedFile, and
    changes nothing, for one that is damaged itself or lacks what cannot be rebuilt.
    """
    folders = {number_of(folder): folder for folder in checkpoints(run_dir)}
    if iteration not in folders:
        available = ", ".join(map(str, folders)) or "none"
        raise UsageError(f"--from {iteration}: {run_dir} has no checkpoint of that iteration. It has: {available}.")
    folder = folders[iteration]
    record = _recoverable(run_dir, folder)
    aside = _SetAside(run_dir)
    _restore_ratings(run_dir, record, aside)
    changed = [_restore_results(run_dir, record, aside), _restore_starts(run_dir, record, aside)]
    if any(changed):
        _rewrite_record(folder, record, aside)
    for number, newer in folders.items():
        if number > iteration:
            aside.move(newer, f"the checkpoint of iteration {number}")
    if (run_dir / RECORDS_FILE).exists() or (run_dir / LEARNERS_FOLDER).exists():
        clear_learners(run_dir)
    if iteration < max(folders):
        PlayedMatches(run_dir).forget()
    _check_tables(run_dir, aside)
    _mend_logs(run_dir, record, aside)
    sync_folder(run_dir / STATE_FOLDER)
    return [f"Continuing from iteration {iteration}.", *aside.notes]


def check_state(run_dir: Path) -> None:
    """Raise DamagedFile for the files that a run reads besides its checkpoint: its logs and policy tables."""
    done = finished_iterations(run_dir)
    if all(metrics["iteration"] != done for metrics in read_metrics(run_dir)):
        raise DamagedFile(run_dir / METRICS_FILE, f"it lacks iteration {done}")
    rated_at = verified_record(checkpoints(run_dir)[-1]).rated_at
    if all(mixtures["iteration"] != rated_at for mixtures in read_mixtures(run_dir)):
        raise DamagedFile(run_dir / MIXTURES_FILE, f"it lacks iteration {rated_at}")
    for path in _tables(run_dir):
        read_sealed(path, IF_DAMAGED)


def check_never_trained(run_dir: Path) -> None:
    """Raise UsageError for a run without a checkpoint that has trained: starting over would replace its snapshots."""
    numbered = [re.fullmatch(r"(.+)-(\d{6,})", path.name) for path in (run_dir / "population").glob("*")]
    later = sorted((int(match[2]), match[0]) for match in numbered if match and int(match[2]))
    if later:
        sign = f"its population holds {later[-1][1]}"
    elif len(list(readable_lines(run_dir))) > 1:
        sign = f"{METRICS_FILE} has its iterations"
    else:
        return
    raise UsageError(
        f"{run_dir} has trained ({sign}), but {run_dir / STATE_FOLDER} holds no checkpoint to resume from. Restore "
        "that folder from a copy. Without it the snapshots still play, and the same run can be trained again in "
        f"another folder: league train {shlex.quote(str(run_dir / 'config.toml'))}"
    )


class _SetAside:
    """Moves files of a run to ``SET_ASIDE`` and notes why."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.notes: list[str] = []

    def move(self, path: Path, why: str) -> None:
        """Move a file or folder out of the way, under an unused name."""
        folder, number = self._run_dir / SET_ASIDE, 1
        folder.mkdir(exist_ok=True)
        while (target := folder / f"{path.name}.{number}").exists():
            number += 1
        path.rename(target)
        self.notes.append(f"{target} was {why}; delete it when it is no longer needed.")


def _remedy(run_dir: Path) -> str:
    """Return what can be done about a damaged file, with the newest checkpoint from which a run can continue."""
    for folder in reversed(checkpoints(run_dir)):
        try:
            _recoverable(run_dir, folder)
        except DamagedFile:
            continue
        number = number_of(folder)
        return (
            f"Restore it from a copy, or continue from the checkpoint of iteration {number}; what cannot be rebuilt "
            f"is reported, and what is replaced is kept:\n  league train --resume --from {number} --run-dir "
            f"{shlex.quote(str(run_dir))}{plugins.as_options()}"
        )
    return "Restore it from a copy: this run has no other state to continue from. Its snapshots still play."


def _recoverable(run_dir: Path, folder: Path) -> Checkpoint:
    """Return the record of a checkpoint from which a run can continue. Raises DamagedFile for any other."""
    record = verified_record(folder)
    _whole_ratings(run_dir, record)
    try:
        verified_journal(run_dir, record)
    except DamagedFile as error:
        if not _matches_are_whole(run_dir, record):
            raise DamagedFile(
                error.path, f"and so is {run_dir / STORE_FILE}, from which it could be rebuilt"
            ) from error
    return record


def _matches_are_whole(run_dir: Path, record: Checkpoint) -> bool:
    try:
        check_matches(run_dir, record)
    except UsageError:
        return False
    return True


def _whole_ratings(run_dir: Path, record: Checkpoint) -> Path:
    """Return a file that holds a checkpoint's ratings: their own or the published one. Raises DamagedFile."""
    saved, published = ratings_file(run_dir, record.rated_at), run_dir / "ratings.json"
    try:
        verified_ratings(saved, record)
    except DamagedFile as error:
        try:
            verified_ratings(published, record)
        except DamagedFile:
            raise error from None
        return published
    return saved


def _restore_ratings(run_dir: Path, record: Checkpoint, aside: _SetAside) -> None:
    path, whole = ratings_file(run_dir, record.rated_at), _whole_ratings(run_dir, record)
    if whole != path:
        if path.exists():
            aside.move(path, "damaged, and was copied again from ratings.json")
        atomic_write(path, whole.read_bytes())


def _restore_results(run_dir: Path, record: Checkpoint, aside: _SetAside) -> bool:
    """Rebuild the journal or the matches where one of them is damaged; return whether the record has changed."""
    path, store = run_dir / STATE_FOLDER / JOURNAL_FILE, run_dir / STORE_FILE
    if not _matches_are_whole(run_dir, record):
        for file in sorted(run_dir.glob(f"{STORE_FILE}*")):
            aside.move(file, "damaged: the standings will count only matches played from now on")
        MatchStore(store).close()
        aside.notes.append(f"{store} is empty: the matches up to iteration {record.iteration} are lost.")
        record.matches_sha256 = ""
        return True
    try:
        verified_journal(run_dir, record)
    except DamagedFile:
        if path.exists():
            aside.move(path, f"damaged, and was rebuilt from {store}")
        record.journal_sha256 = _rebuild_journal(path, store, record.iteration)
        return True
    return False


def _restore_starts(run_dir: Path, record: Checkpoint, aside: _SetAside) -> bool:
    """Set a damaged pool of starts aside, so that a new one is made; return whether the record has changed."""
    try:
        check_starts(run_dir, record)
    except DamagedFile:
        for file in sorted(run_dir.glob(f"{POOL_FILE}*")):
            aside.move(file, "damaged: a new pool of starts is made")
        record.starts_sha256 = ""
        return True
    return False


def _rebuild_journal(path: Path, store: Path, last_iteration: int) -> str:
    """Rebuild the journal from stored matches; return its last checksum. Sums may differ in their last bits."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with MatchStore(store) as matches:
        by_iteration = {
            number: list(rows) for number, rows in groupby(matches.results(), key=lambda result: result.iteration)
        }
    checksum = ""
    for iteration in range(last_iteration + 1):
        checksum = journal.append(partial, iteration, by_iteration.get(iteration, []), checksum)
    partial.rename(path)
    return checksum


def _rewrite_record(folder: Path, record: Checkpoint, aside: _SetAside) -> None:
    """Replace a checkpoint by one with another record and the same other files."""
    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for path in folder.iterdir():
        if path.name not in (STATE_FILE, MANIFEST_FILE):
            link(path, partial / path.name)
    write_record(partial, record)
    aside.move(folder, "the checkpoint before the files outside it were rebuilt")
    partial.rename(folder)


def _check_tables(run_dir: Path, aside: _SetAside) -> None:
    """Set damaged policy tables aside: they are computed again."""
    for path in _tables(run_dir):
        try:
            read_sealed(path, "")
        except DamagedFile:
            aside.move(path, "a damaged policy table, which will be computed again")


def _tables(run_dir: Path) -> list[Path]:
    return sorted((run_dir / STATE_FOLDER / "tables").glob("[!.]*.json"))


def _mend_logs(run_dir: Path, record: Checkpoint, aside: _SetAside) -> None:
    """Remove unreadable and later lines from the logs, and add the iteration to continue from."""
    metrics = json.dumps({"iteration": record.iteration}) + "\n"
    mixtures = mixtures_line(record.rated_at, record.mixtures)
    needed = {METRICS_FILE: (record.iteration, metrics), MIXTURES_FILE: (record.rated_at, mixtures)}
    for name, (iteration, content) in needed.items():
        path = run_dir / name
        lines = list(readable_lines(run_dir, name)) if not path.is_dir() else []
        whole = path.is_file() and len(lines) == path.read_bytes().count(b"\n")
        numbers = [json.loads(line)["iteration"] for line in lines]
        earlier = [line for line, number in zip(lines, numbers, strict=True) if number <= record.iteration]
        if iteration not in numbers:
            earlier = [line for line, number in zip(lines, numbers, strict=True) if number < iteration]
            earlier.append(content.encode())
            whole = False
        if not whole and path.exists():
            aside.move(path, "damaged; the curves lack what could not be read")
        if not whole or len(earlier) < len(lines):
            atomic_write(path, b"".join(earlier))
