"""Matches that flow (``async_learners.mode = "stream"``): they begin as others end, and no update waits to begin more.

The draw fixes which matches belong to a batch: batch b is the matches drawn for iteration b, after iteration
b - 1 - ahead, and its update is due when the last of them has ended. Meanwhile matches of later batches begin in the
places of those that ended. So which matches an update learns from never depends on how long they took, and its gradient
is the one of taking turns. An update of the first matches that end under its weights, the late ones dropped as stale,
would prefer what is quick: of two arms with returns r0 and r1, of which the second, with probability p, takes ten times
as long, it sees the first alone, so E[r (a - p)] is -p r0 where it should be p (1 - p) (r1 - r0).

A match plays to its end with the weights of the newest version when it began, and matches begin in the order in which
they were drawn. So all that chance decides is with which match each version began (``RunState.since``). It is
recorded, in the checkpoint and in ``arrivals.jsonl``, before that match begins: a resumed run follows the record as far
as it goes, and plays what was lost again with the same weights.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from arena.records import Episode, MatchRequest, Turn
from games.common.files import atomic_write
from league.config import RunConfig
from league.population.storage.run_dir import STATE_FOLDER
from league.training.checkpoints.checkpoint import weights_after
from league.training.checkpoints.run_state import RunState, StreamBatch
from league.training.interfaces import Metrics, RolloutBackend
from learners.trajectories import Trajectory

ARRIVALS_FILE = "arrivals.jsonl"
PAUSE = 0.002  # seconds between two looks at a learner when no match can continue


class Stream:
    """The matches of a run's batches that are drawn and not yet learned from."""

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path,
        state: RunState,
        rollouts: RolloutBackend,
        draw: Callable[[int], list[MatchRequest]],
    ) -> None:
        """``draw`` returns the matches of an iteration. Matches of a checkpoint that had not ended are played again."""
        settings = config.async_learners
        self._ahead, self._iterations = settings.batches_ahead, config.iterations
        self._drops_after = settings.max_staleness if settings.too_old == "drop" else None
        self._run_dir, self._state, self._rollouts, self._draw = run_dir, state, rollouts, draw
        self._feed = _Feed(state, _Versions(run_dir, state, rollouts), self._ahead)
        self._flow: Iterator[Sequence[Episode]] = iter(())
        self._batch_of = {r.index: number for number, batch in state.streaming.items() for r in batch.requests}

    def batch(self, iteration: int) -> list[Episode]:
        """Play until all matches of an iteration have ended; return them in the order of the draw."""
        drawn = max(self._state.streaming, default=self._state.iteration)
        for number in range(drawn + 1, min(iteration + self._ahead, self._iterations) + 1):
            requests = self._draw(number)
            self._state.streaming[number] = StreamBatch(requests, {})
            self._batch_of |= {request.index: number for request in requests}
            self._feed.add(requests)
        batch = self._state.streaming[iteration]
        while len(batch.episodes) < len(batch.requests):
            if not self._advance():  # what is recorded cannot have happened with these settings
                self._feed.stop_following()
        del self._state.streaming[iteration]
        for request in batch.requests:
            del self._batch_of[request.index]
        return [batch.episodes[request.index] for request in batch.requests]

    def play_while(self, learning: Callable[[], bool]) -> None:
        """Let matches continue while a learner learns."""
        while learning():
            if not self._advance():
                time.sleep(PAUSE)

    def updated(self) -> None:
        """Let matches that begin from now on have the weights after the state's iteration."""
        self._feed.updated(self._state.iteration)

    def ages(self, trajectories: Sequence[Trajectory]) -> list[int]:
        """Return how many updates of its policy each trajectory's oldest turn is behind.  # [N]"""
        return [_age(trajectory, self._state.policies[trajectory.policy].updates) for trajectory in trajectories]

    def fresh(self, trajectories: Sequence[Trajectory]) -> tuple[list[Trajectory], Metrics]:
        """Return the trajectories to learn from, and how old all of them are, in updates; nothing where all are new."""
        ages = self.ages(trajectories)
        kept = [
            trajectory
            for trajectory, age in zip(trajectories, ages, strict=True)
            if self._drops_after is None or age <= self._drops_after
        ]
        if not any(ages):
            return kept, {}
        metrics = {"staleness": sum(ages) / len(ages), "staleness/most": float(max(ages))}
        return kept, metrics | {"staleness/dropped": float(len(trajectories) - len(kept))}

    def _advance(self) -> bool:
        """Let what is under way continue for a round; return False if nothing is, and nothing can begin."""
        ended = next(self._flow, None)
        if ended is None:
            if not self._feed.can_begin:
                return False
            self._flow = self._rollouts.flow(self._feed)
            return True
        for episode in map(self._feed.returned, ended):
            index = episode.request.index
            self._state.streaming[self._batch_of[index]].episodes[index] = episode
        return True


def _age(trajectory: Trajectory, updates: int) -> int:
    versions = [turn.trace.version for turn in trajectory.turns if turn.trace is not None]
    return max([updates - version for version in versions if version is not None], default=0)


class _Feed:
    """The matches that have not started, in the order of the draw; an iterator that may be exhausted for a time."""

    def __init__(self, state: RunState, versions: _Versions, ahead: int) -> None:
        """Where play is ``ahead``, matches may outlast an update, so each version plays under a name of its own."""
        self._state, self._versions, self._ahead, self._keeps = state, versions, ahead, ahead > 0
        self._version = state.iteration
        self._waiting: deque[MatchRequest] = deque()
        self._under_way: dict[int, tuple[MatchRequest, int]] = {}  # by index, with its version
        # index of the last match that has started and is not to be played again with other weights
        self._last = max([index for batch in state.streaming.values() for index in batch.episodes], default=-1)
        for _, batch in sorted(state.streaming.items()):
            self.add([request for request in batch.requests if request.index not in batch.episodes])
        if self._keeps and state.since:
            for version in {self._version, *(self._version_of(request) for request in self._waiting)}:
                self._versions.load(version)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MatchRequest:
        if not self.can_begin:
            raise StopIteration
        request = self._waiting.popleft()
        version = self._version_of(request)
        self._under_way[request.index] = request, version
        self._last = max(self._last, request.index)
        if not self._keeps:
            return request
        return request._replace(players=tuple([self._versions.name(player, version) for player in request.players]))

    @property
    def can_begin(self) -> bool:
        """Whether a match can begin now."""
        return bool(self._waiting) and self._version_of(self._waiting[0]) <= self._version

    def add(self, requests: Sequence[MatchRequest]) -> None:
        """Add matches after those before."""
        self._waiting.extend(requests)

    def returned(self, episode: Episode) -> Episode:
        """Return the episode of a match as it was asked for, with the version of the weights in each reply."""
        request, _ = self._under_way.pop(episode.request.index)
        if not self._keeps:
            return episode
        turns = [_with_version(turn, request, self._versions.updates) for turn in episode.turns]
        self._forget_old()
        return episode._replace(request=request, turns=tuple(turns))

    def updated(self, version: int) -> None:
        """Take the present weights as this version; record with which match it begins, unless that is recorded."""
        self._version = version
        first = self._versions.to_come.pop(version, None)
        if first is None:
            first = self._first_to_come()
            self._versions.record(version, first)
        self._state.since[version] = first
        for old in [old for old in self._state.since if old < version - self._ahead]:  # no match has them any more
            del self._state.since[old]
        if self._keeps:
            self._versions.keep(version)
            self._forget_old()

    def stop_following(self) -> None:
        """Forget what is recorded of versions to come."""
        if not self._versions.to_come:
            raise RuntimeError("The stream of matches has come to a stop: no match is running and none can start.")
        self._versions.to_come.clear()

    def _first_to_come(self) -> int:
        """Return the first match that can have weights which no match before it has had.

        A resumed run plays again what a kill has lost, with the weights that it had, between matches that had ended.
        """
        begun = max([self._last, *(first - 1 for first in self._state.since.values())])
        return next((request.index for request in self._waiting if request.index > begun), self._state.next_match)

    def _version_of(self, request: MatchRequest) -> int:
        """Return the version that a match plays with; it may be one to come."""
        since = self._state.since | self._versions.to_come
        return max([version for version, first in since.items() if first <= request.index], default=self._version)

    def _forget_old(self) -> None:
        """Drop the versions that no match needs any more."""
        oldest = min([version for _, version in self._under_way.values()], default=self._version)
        if self._waiting:
            oldest = min(oldest, self._version_of(self._waiting[0]))
        self._versions.drop_before(min(oldest, self._version))


class _Versions:
    """The engine's players of former weights, ``main~7``, and the record of when each version began."""

    def __init__(self, run_dir: Path, state: RunState, rollouts: RolloutBackend) -> None:
        self._run_dir, self._state, self._engine = run_dir, state, rollouts.engine
        self._path = run_dir / STATE_FOLDER / ARRIVALS_FILE
        self._kept: set[int] = set()
        self.updates: dict[str, tuple[str, int | None]] = {}  # by name: the policy, and the updates that it had had
        # of versions after the state's, from a run that was killed or has gone back: index of the first match
        self.to_come = {version: first for version, first in _read_arrivals(self._path) if version > state.iteration}

    def name(self, player: str, version: int) -> str:
        """Return the name under which a player plays with a version."""
        return f"{player}~{version}" if player in self._state.policies else player

    def keep(self, version: int) -> None:
        """Keep the present weights as a version."""
        if version not in self._kept:
            for name, policy in self._state.policies.items():
                self._engine.keep(self.name(name, version), name, policy.lm)
                self.updates[self.name(name, version)] = name, policy.lm.version
            self._kept.add(version)

    def load(self, version: int) -> None:
        """Keep a version that a resumed run needs again: the present one, or one of an older checkpoint."""
        if version >= self._state.iteration:
            self.keep(self._state.iteration)
            return
        for name, policy in self._state.policies.items():
            former = weights_after(self._run_dir, version, policy)
            self._engine.keep(self.name(name, version), name, former)
            self.updates[self.name(name, version)] = name, former.version
            former.release()
        self._kept.add(version)

    def drop_before(self, oldest: int) -> None:
        """Drop all versions before one."""
        for version in [version for version in self._kept if version < oldest]:
            for name in self._state.policies:
                self._engine.drop(self.name(name, version))
                del self.updates[self.name(name, version)]
            self._kept.remove(version)

    def record(self, version: int, first: int) -> None:
        """Record with which match a version begins; lines of this version and later ones are replaced."""
        lines = [*((v, f) for v, f in _read_arrivals(self._path) if v < version), (version, first)]
        atomic_write(self._path, "".join(json.dumps({"version": v, "from": f}) + "\n" for v, f in lines))


def _read_arrivals(path: Path) -> list[tuple[int, int]]:
    """Return the versions that are recorded, and the index of the match with which each began."""
    if not path.is_file():
        return []
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [(line["version"], line["from"]) for line in lines]


def _with_version(turn: Turn, request: MatchRequest, updates: dict[str, tuple[str, int | None]]) -> Turn:
    """Return a turn in its player's own name."""
    trace = turn.trace
    if trace is not None and trace.snapshot in updates:
        player, version = updates[trace.snapshot]
        trace = trace._replace(snapshot=player, version=version)
    return turn._replace(player=request.players[turn.seat], trace=trace)
