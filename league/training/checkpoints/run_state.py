"""A run's state between two iterations: the record that a checkpoint saves, and the objects in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, PlainSerializer

from arena.records import Episode, MatchRequest
from league.config import RunConfig
from league.config.load import run_roles
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.results.payoffs import PayoffTable, Result, summarise
from league.population.results.ratings import Ratings
from league.population.storage.members import JudgedGames, MetaStrategy
from league.population.storage.notes import NOTES_FOLDER, NoteStore, kept_places
from league.population.storage.population import Origin, Population
from league.training.starts.pool import POOL_FILE, StartPool
from learners.losses.term import ImitatedReply
from learners.trajectory_buffer import TrajectoryBuffer
from learners.update.policy import Policy
from roles.role import Roles


class Beginning(NamedTuple):
    """The weights that replaced a policy's since its last snapshot, and why."""

    origin: Origin
    parent: str | None  # the snapshot whose weights it got
    parents: tuple[str, ...] = ()  # all that they came from, if there are several
    how: str = ""  # in words, if the origin does not say enough


class StreamBatch(NamedTuple):
    """The matches of an iteration that are not learned from yet, in a stream."""

    requests: list[MatchRequest]
    episodes: dict[int, Episode]  # of those that have ended, by index


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    """The content of ``state.json`` after an iteration. Data too large for JSON is in other files of the checkpoint."""

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="constants")

    iteration: int = 0  # finished iterations
    next_match: int = 0  # index of the next match
    rated_at: int = 0  # iteration of the last snapshot, after which the ratings were saved
    credit: dict[str, Any] = field(default_factory=dict)  # state of running baselines, by rule
    values: dict[str, Any] = field(default_factory=dict)  # what value estimators have learned, by estimator
    alarms: dict[str, Any] = field(default_factory=dict)  # baselines of the alarms
    frozen_at: dict[str, int] = field(default_factory=dict)  # iteration of a policy's last snapshot
    resets: dict[str, int] = field(default_factory=dict)  # iteration of an exploiter's last reset
    origins: dict[str, Beginning] = field(
        default_factory=dict
    )  # of policies whose weights were replaced since their last snapshot
    retired: Annotated[set[str], PlainSerializer(sorted)] = field(
        default_factory=set
    )  # snapshots that are no longer drawn as opponents
    meta: dict[str, MetaStrategy] = field(default_factory=dict)  # for the next draw of matches, by game
    mixtures: dict[str, list[dict[str, float]]] = field(default_factory=dict)  # RUN@mixture by game, seat and snapshot
    judged: JudgedGames = field(default_factory=JudgedGames)  # which games are trained
    since: dict[int, int] = field(default_factory=dict)  # in a stream: index of the first match of each version
    notes: str = ""  # the version of the players' notes (``NoteStore``)
    # Checksums of the data outside the checkpoint when it was saved, for a resumed run to verify.
    ratings_sha256: str = ""  # of the file of ratings
    journal_sha256: str = ""  # the last line's checksum
    matches_sha256: str = ""  # ``MatchStore.digest``
    starts_sha256: str = ""  # ``StartPool.digest``; empty where a run has no pool


@dataclass(slots=True, kw_only=True)
class RunState(Checkpoint):
    """A run's state between two iterations."""

    policies: dict[str, Policy]  # by name
    population: Population
    payoffs: PayoffTable
    ratings: Ratings
    store: MatchStore  # every match that was played
    note_store: NoteStore  # of players whose cards keep notes from match to match
    starts: StartPool | None = None  # where matches start; None: every deal is new
    pending: dict[str, TrajectoryBuffer] = field(
        default_factory=dict
    )  # turns of policies whose update is not due, by policy
    imitated: Mapping[str, Sequence[ImitatedReply]] = field(
        default_factory=dict
    )  # replies of others that policies imitate, by policy
    played_ahead: dict[int, list[Episode]] = field(default_factory=dict)  # by iteration, not learned from yet
    streaming: dict[int, StreamBatch] = field(default_factory=dict)  # in a stream, by iteration
    unsaved: list[Result] = field(default_factory=list)  # of the current iteration
    saving: Future[None] | None = None  # the newest checkpoint, while it is written beside training

    def close(self) -> None:
        """Close the files of matches and of starts."""
        self.store.close()
        if self.starts is not None:
            self.starts.close()

    def record(self, episodes: Sequence[Episode]) -> list[Result]:
        """Add matches to the match store, the payoff table and the journal's next lines; return their results."""
        self.store.add(episodes, self.iteration)
        results = summarise(episodes, self.iteration)
        self.payoffs.apply(results)
        self.notes = self.note_store.after(self.notes, episodes)
        self.unsaved += results
        return results


def new_state(
    config: RunConfig,
    run_dir: Path,
    policies: dict[str, Policy],
    saved: Checkpoint | None = None,
    roles: Roles | None = None,
) -> RunState:
    """Return the state of a run before its first iteration, or with the fields of a checkpoint.

    ``roles`` are the run's, where they are known; None: they are worked out.
    """
    saved = saved or Checkpoint()
    noted = kept_places(roles or run_roles(config)) if config.roles.stores else ()
    return RunState(
        **{item.name: getattr(saved, item.name) for item in fields(Checkpoint)},
        policies=policies,
        population=Population(run_dir / "population"),
        payoffs=PayoffTable(live=policies, forgetting=config.matchmaking.forgetting, resets=saved.resets),
        ratings=Ratings(
            config.evaluation.anchors[:1]
        ),  # anchors of different strength cannot both be fixed at one rating
        store=MatchStore(run_dir / STORE_FILE),
        note_store=NoteStore(run_dir / NOTES_FOLDER, noted),
        starts=StartPool(run_dir / POOL_FILE, config.starts.forgetting) if config.starts.rule else None,
    )
