"""Everything a run would lose if it were killed, to and from disk.

``state/iteration-000123/`` holds one safetensors file a policy and ``state.json``; it appears by one
rename, and older ones go after it. The payoff table is folded from ``state/journal.jsonl``, the sums of each
iteration in the order in which they came, and the ratings, which only a snapshot changes, have a file for the
newest: saving an iteration costs the same however large the population is. Every match goes to ``results.sqlite``
as its batch ends; what a resumed run plays again is removed from it first.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena.records import Episode
from arena.replays import load_episodes, save_episodes
from games.files import atomic_write, sync_files, sync_folder
from league import journal
from league.config import RunConfig
from league.learning_state import read_pending, read_policies, write_policies
from league.match_store import STORE_FILE, MatchStore
from league.matchmaking.pool import Meta
from league.payoffs import PayoffTable, Result, summarise
from league.population import Population
from league.ratings import Ratings
from league.runs import STATE_FOLDER
from learners.pending import Pending
from learners.policy import Policy

RECORDS_FILE = "records.sqlite"  # of a run whose policies learn in other processes, and so is:
LEARNERS_FOLDER = "learners"
JOURNAL_FILE = "journal.jsonl"
STATE_FILE = "state.json"
_PREFIX = "iteration-"
_RATINGS = "ratings-"


@dataclass(slots=True)
class RunState:
    """A run between two iterations."""

    policies: dict[str, Policy]  # by name
    population: Population
    payoffs: PayoffTable
    ratings: Ratings
    store: MatchStore  # every match that was played
    credit: dict[str, Any] = field(default_factory=dict)  # what running baselines remember, by rule
    alarms: dict[str, Any] = field(default_factory=dict)  # what the alarms hold for normal
    pending: dict[str, Pending] = field(default_factory=dict)  # turns of policies whose update is not due, by policy
    iteration: int = 0  # finished iterations
    next_match: int = 0  # index of the next match
    rated_at: int = 0  # the iteration after which the ratings were last saved, and the newest snapshot frozen
    frozen_at: dict[str, int] = field(default_factory=dict)  # the iteration after which a policy was last frozen
    retired: set[str] = field(default_factory=set)  # snapshots that are not met any more
    meta: dict[str, Meta] = field(default_factory=dict)  # what PSRO trains against until the next snapshot, by game
    mixtures: dict[str, list[dict[str, float]]] = field(default_factory=dict)  # RUN@mixture by game, seat and snapshot
    ahead: dict[int, list[Episode]] = field(default_factory=dict)  # played before its turn, by iteration
    news: list[Result] = field(default_factory=list)  # of the iteration that is not saved yet

    def record(self, episodes: Sequence[Episode]) -> list[Result]:
        """Store matches, fold them into the payoff table, keep their results for the journal; return the results."""
        self.store.add(episodes, self.iteration)
        results = summarise(episodes, self.iteration)
        self.payoffs.apply(results)
        self.news += results
        return results


def new_state(config: RunConfig, run_dir: Path, policies: dict[str, Policy]) -> RunState:
    """Return the state of a run before its first iteration."""
    return RunState(
        policies,
        Population(run_dir / "population"),
        PayoffTable(live=policies, forgetting=config.matchmaking.forgetting),
        Ratings(config.evaluation.anchors[:1]),  # two of different strength cannot both be held at the same rating
        MatchStore(run_dir / STORE_FILE),
    )


def save_state(run_dir: Path, state: RunState) -> None:
    """Write the state of a finished iteration; when this returns, a kill loses nothing before it."""
    journal.append(run_dir / STATE_FOLDER / JOURNAL_FILE, state.iteration, state.news)
    state.news = []
    folder = run_dir / STATE_FOLDER / f"{_PREFIX}{state.iteration:06d}"
    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    write_policies(partial, state.policies, state.pending)
    for iteration, episodes in state.ahead.items():
        save_episodes(partial / _ahead_file(iteration), episodes)
    numbers = {
        "iteration": state.iteration,
        "next_match": state.next_match,
        "credit": state.credit,
        "alarms": state.alarms,
        "pending": sorted(state.pending),
        "ahead": sorted(state.ahead),
        "policies": sorted(state.policies),
        "rated_at": state.rated_at,
        "frozen_at": state.frozen_at,
        "retired": sorted(state.retired),
        "begun": state.payoffs.begun,
        "meta": {game: meta._asdict() for game, meta in state.meta.items()},
        "mixtures": state.mixtures,
    }
    atomic_write(partial / STATE_FILE, json.dumps(numbers))
    sync_files(partial)
    partial.rename(folder)
    sync_folder(folder.parent)
    _remove_older(folder, _ratings_file(run_dir, state.rated_at))


def save_ratings(run_dir: Path, state: RunState) -> None:
    """Write the ratings after a snapshot; the older version stays until a saved state names the new one."""
    state.rated_at = state.iteration
    atomic_write(_ratings_file(run_dir, state.rated_at), json.dumps(state.ratings.to_json()))


def publish(run_dir: Path, state: RunState) -> None:
    """Write payoffs, ratings and mixtures for those who look at the run."""
    atomic_write(run_dir / "payoffs.json", json.dumps(state.payoffs.to_json()))
    atomic_write(run_dir / "ratings.json", json.dumps(state.ratings.to_json()))
    atomic_write(run_dir / "mixtures.json", json.dumps(state.mixtures))


def load_state(config: RunConfig, run_dir: Path, policies: dict[str, Policy]) -> RunState:
    """Return the newest saved state with the policies' weights restored in place.

    What a killed process did after it is undone: newer snapshots and journal lines are removed.
    """
    folder = newest_state(run_dir)
    numbers = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    read_policies(folder, policies)
    state = new_state(config, run_dir, policies)
    state.population.discard_after(numbers["rated_at"])
    state.store.discard_after(numbers["iteration"])
    state.payoffs.begun = numbers["begun"]
    state.payoffs.apply(journal.replay(run_dir / STATE_FOLDER / JOURNAL_FILE, numbers["iteration"]))
    ratings = _ratings_file(run_dir, numbers["rated_at"])
    _remove_older(folder, ratings)
    state.ratings = Ratings.from_json(json.loads(ratings.read_text(encoding="utf-8")))
    state.pending = read_pending(folder, numbers["pending"])
    state.ahead = {iteration: load_episodes(folder / _ahead_file(iteration)) for iteration in numbers.get("ahead", ())}
    state.credit, state.alarms, state.rated_at = numbers["credit"], numbers["alarms"], numbers["rated_at"]
    state.iteration, state.next_match = numbers["iteration"], numbers["next_match"]
    state.frozen_at, state.retired = numbers["frozen_at"], set(numbers["retired"])
    state.meta = {game: _meta(data) for game, data in numbers["meta"].items()}
    state.mixtures = numbers["mixtures"]
    return state


def _meta(data: Mapping[str, Any]) -> Meta:
    joint = [(tuple(lineup), weight) for lineup, weight in data["joint"]]
    return Meta(data["weights"], joint, tuple(data["advised"]))


def newest_state(run_dir: Path) -> Path:
    """Return the folder of the newest whole state. Raises ValueError where there is none."""
    return max((run_dir / STATE_FOLDER).glob(f"{_PREFIX}*"))


def has_state(run_dir: Path) -> bool:
    """Return whether there is a state to resume from; there is none before the first snapshot is measured."""
    return any((run_dir / STATE_FOLDER).glob(f"{_PREFIX}*"))


def finished_iterations(run_dir: Path) -> int:
    """Return how many iterations the newest state has behind it."""
    return int(json.loads((newest_state(run_dir) / STATE_FILE).read_text(encoding="utf-8"))["iteration"])


def begin_state(run_dir: Path) -> None:
    """Remove what a run that was killed before its first state left, journal, matches and records included."""
    for path in run_dir.glob(f"{STORE_FILE}*"):
        path.unlink()
    forget_learners(run_dir)
    shutil.rmtree(run_dir / STATE_FOLDER, ignore_errors=True)
    (run_dir / STATE_FOLDER).mkdir()
    Population(run_dir / "population").discard_after(-1)


def forget_learners(run_dir: Path) -> None:
    """Remove what learner processes left: the saved state has all of it that counts."""
    for path in sorted(run_dir.glob(f"{RECORDS_FILE}*")):  # the store itself first: its journals are nothing without it
        path.unlink()
    shutil.rmtree(run_dir / LEARNERS_FOLDER, ignore_errors=True)


def _remove_older(folder: Path, ratings: Path) -> None:
    """Remove all states but the one in ``folder``, whole or half written, and all ratings but its own."""
    for older in folder.parent.iterdir():
        if older.name.lstrip(".").startswith(_PREFIX) and older != folder:
            shutil.rmtree(older)
        elif older.name.startswith(_RATINGS) and older != ratings:
            older.unlink()


def _ratings_file(run_dir: Path, iteration: int) -> Path:
    return run_dir / STATE_FOLDER / f"{_RATINGS}{iteration:06d}.json"


def _ahead_file(iteration: int) -> str:
    return f"ahead-{iteration:06d}.jsonl"
