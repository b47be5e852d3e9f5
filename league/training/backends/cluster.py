"""The backend on a Ray cluster: its workers play a run's matches, and may learn.

The driver process draws matches, keeps the run's state and its disk, and sends weights: each version once, through the
cluster's object store. Any other process may die.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from arena.cluster.interface import Cluster, WorkerSpec
from arena.cluster.match_pool import MatchPool, PoolSpec
from arena.cluster.messages import to_remote_requests, to_replies
from arena.cluster.ray_cluster import RayCluster
from arena.lm.language_model import LanguageModel
from arena.lm.lora import AdapterLM, is_adapter
from arena.process import available_cores
from arena.records import Episode, MatchRequest, Reply, ReplyRequest
from arena.remote.usage import Usage
from arena.samplers.torch_lm import LoadsWeights
from games.common.errors import unknown_name
from league.config.context import RunContext
from league.population.players.engines import Engines
from league.population.players.fixed import FixedPlayers, fixed_players
from league.population.players.model_engine import ModelEngine, check_context, engine_kind, slots_of
from league.population.players.outside import anchors_and_guests
from league.training.backends.cluster_learners import ClusterLearner
from league.training.backends.cluster_workers import MatchWorker, RemotePlayersWorker, is_remote_player
from league.training.backends.engine_worker import EngineWorker
from league.training.backends.placement import assign_bundles, check_cluster, check_resources
from league.training.backends.weight_transfer import (
    BaseWeights,
    WeightMessage,
    live_files,
    put_base,
    snapshot_files,
)
from league.training.checkpoints.run_state import RunState
from league.training.interfaces import Learner, Metrics, RolloutBackend
from league.training.learning.learner import InProcessLearner
from league.training.learning.learner_process import learners_of
from learners.update.policy import Policy
from roles.role import Roles

FLOWING_CALLS = 16  # chunks of a worker in a stream: each holds a call until its longest match has ended


class ClusterDeployment:
    """A ``Deployment`` on a cluster."""

    def __init__(self, context: RunContext, address: str) -> None:
        """Prepare to join the cluster at an address, as ``RayCluster`` takes it."""
        self._context, self._config, self._address = context, context.config, address
        self._learners = learners_of(context)
        check_resources(context.config, len(self._learners))  # before Ray starts, which takes a while
        self.on_cpu = bool(self._learners)
        self._bases: dict[str, BaseWeights] = {}  # by policy
        self._pool: MatchPool | None = None
        self._learner: ClusterLearner | None = None

    def __enter__(self) -> Self:
        self._cluster = RayCluster(self._address, available_cores())
        try:
            check_cluster(self._config, len(self._learners), self._cluster.nodes())
            bundles, self._bundles = assign_bundles(self._config, len(self._learners))
            if bundles:
                self._cluster.reserve(bundles)
        except BaseException:
            self._cluster.__exit__()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._learner is not None:
            self._learner.close()
        self._cluster.__exit__()

    def learner(self, state: RunState) -> Learner:
        """See ``Deployment``."""
        if not self._learners:
            return InProcessLearner(self._config, state)
        table = self._config.cluster
        spec = WorkerSpec(
            "learner", object, (), table.learner_cpus, table.learner_gpus, bundles=self._bundles.get("learner", ())
        )
        self._learner = ClusterLearner(self._cluster, self._context, state, self._base_weights(state), spec)
        return self._learner

    def rollouts(self, context: RunContext, state: RunState, engines: Engines) -> RolloutBackend:
        """See ``Deployment``."""
        config, fixed = context.config, fixed_players(context.roles, engines)
        outside = [*anchors_and_guests(config, engines), *fixed.engines]
        for first in config.by_model(state.policies):
            check_context(config, context.roles, state.policies[first].lm)
        slots = slots_of(config, state.policies, next(iter(state.policies.values())).lm.model.config)
        self._pool = MatchPool(
            self._cluster,
            self._pool_spec(self._base_weights(state), fixed.roles, any(map(is_remote_player, outside)))._replace(
                holds=None if slots is None else slots.number
            ),
            chunk_size=config.cluster.matches,
            timeout=config.cluster.timeout,
        )
        return ClusterRollouts(self._pool, self._cluster, state.policies, fixed, [slots.note()] if slots else [])

    def usage(self) -> dict[str, Usage]:
        """See ``Deployment``."""
        config = self._config
        outside = [*config.evaluation.anchors, *config.matchmaking.guests, *config.curriculum.controls]
        if self._pool is None or not any(map(is_remote_player, [*outside, *config.roles.player.values()])):
            return {}
        usage: dict[str, Usage] = self._pool.call_remote_players("usage")
        return usage

    def _pool_spec(self, bases: Mapping[str, BaseWeights], roles: Roles, remote_players: bool) -> PoolSpec:
        """Return the workers and engines that play."""
        config, table = self._config, self._config.cluster
        arguments = (config, bases, table.engine_cpus)
        engine = WorkerSpec(
            "engine",
            EngineWorker,
            arguments,
            table.engine_cpus,
            table.engine_gpus,
            streams=engine_kind(config).streams,
            bundles=self._bundles.get("engine", ()),
        )
        worker = WorkerSpec("worker", MatchWorker, (*arguments, roles), table.worker_cpus)
        if not table.engines:
            worker = worker._replace(
                cpus=engine.cpus, gpus=engine.gpus, bundles=self._bundles.get("worker", ()), calls=2
            )
        if config.async_learners.streams:
            worker = worker._replace(calls=FLOWING_CALLS)
        server = WorkerSpec(
            "remote_players", RemotePlayersWorker, (str(Path.cwd()),), 0.0, streams=True, on_driver=True
        )
        return PoolSpec(
            worker,
            table.workers,
            engine if table.engines else None,
            table.engines,
            server if remote_players else None,
        )

    def _base_weights(self, state: RunState) -> dict[str, BaseWeights]:
        """Return each policy's base; each is put into the object store once."""
        if not self._bases:
            for group in self._config.by_model(state.policies).values():
                base = put_base(self._cluster, self._context, {name: state.policies[name] for name in group})
                self._bases |= dict.fromkeys(group, base)
        return self._bases


class ClusterRollouts:
    """A ``RolloutBackend`` that plays on a pool of workers."""

    def __init__(
        self,
        pool: MatchPool,
        cluster: Cluster,
        policies: Mapping[str, Policy],
        fixed: FixedPlayers | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """``policies`` are the ones in training."""
        self.notes = notes
        self._pool, self._engine = pool, ClusterEngine(pool, cluster, policies)
        self.fixed = fixed or FixedPlayers({}, {})
        self.engine: ModelEngine = self._engine
        self._matches_before: dict[int, int] = {}  # by engine, at the last call of ``metrics``

    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """See ``RolloutBackend``."""
        players = {player for request in requests for player in request.players}
        players |= {player for request in requests for cast in request.cast for player in cast.players}
        return self._pool.play(requests, self._engine.weights(players))

    def flow(self, requests: Iterator[MatchRequest]) -> Iterator[Sequence[Episode]]:
        """See ``RolloutBackend``."""
        return self._pool.flow(requests, self._engine.weights)

    def metrics(self) -> Metrics:
        """Return each engine's share of the matches since the last call, and how many processes were replaced.

        What did not happen is absent.
        """
        now = dict(self._pool.matches_by_engine)
        matches = {engine: now[engine] - self._matches_before.get(engine, 0) for engine in now}
        self._matches_before, total = now, sum(matches.values())
        shares = {f"cluster/share/{engine}": matches[engine] / total for engine in sorted(matches)} if total else {}
        replaced = {f"cluster/replaced/{kind}": float(number) for kind, number in self._pool.replaced.items()}
        self._pool.replaced.clear()
        return shares | replaced

    def close(self) -> None:
        """See ``RolloutBackend``."""
        self._pool.close()


class ClusterEngine:
    """A pool's engines as one ``ModelEngine``, which holds all players' weights and sends them with each call."""

    def __init__(self, pool: MatchPool, cluster: Cluster, policies: Mapping[str, Policy]) -> None:
        self._pool, self._cluster, self._policies = pool, cluster, policies
        self._policy_of: dict[str, str] = {}  # by player
        self._live: dict[str, LanguageModel] = {}
        self._stale: set[str] = set()  # live players whose weights may have changed
        self._folders: dict[str, Callable[[], Path]] = {}  # of registered players, checked when called
        self._messages: dict[str, WeightMessage] = {}  # the newest, by player
        self._sent: dict[str, Mapping[str, bytes]] = {}  # the newest files, by live player

    @property
    def tokens(self) -> int:
        """Prompt and reply tokens of all replies so far."""
        return self._pool.tokens

    def add(self, player: str, lm: LanguageModel) -> None:
        """See ``ModelEngine``."""
        self._live[player] = lm
        self._stale.add(player)
        self._policy_of[player] = self._policy_with(lm)

    def register(
        self,
        player: str,
        source: str | Path,
        check: Callable[[], object] | None = None,
        like: LoadsWeights | None = None,
    ) -> None:
        """See ``ModelEngine``; ``like`` is one of the models in training."""

        def folder() -> Path:
            if check is not None:
                check()
            return Path(source)

        self._folders[player] = folder
        self._policy_of[player] = self._policy_with(like)

    def keep(self, name: str, player: str, lm: LanguageModel) -> None:
        """See ``ModelEngine``. An engine loads it as it loads a snapshot, and drops it as one."""
        self._policy_of[name] = self._policy_of[player]
        files, adapter = self._cluster.put(live_files(lm)), isinstance(lm, AdapterLM)
        self._messages[name] = WeightMessage(
            name, files, self._policy_of[name], adapter, live=False, updates=lm.version
        )

    def drop(self, name: str) -> None:
        """See ``ModelEngine``."""
        del self._messages[name], self._policy_of[name]

    def refresh(self) -> None:
        """See ``ModelEngine``."""
        self._stale.update(self._live)

    def sleep(self) -> None:
        """Do nothing: learners have their own GPUs, or their own part of one."""

    def weights(self, players: Collection[str]) -> dict[str, WeightMessage]:
        """Return the current weights of those players that are language models."""
        return {player: self._message(player) for player in sorted(players) if self._has(player)}

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """See ``ModelEngine``."""
        return to_replies(requests, self._call("sample", requests))

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """See ``ModelEngine``."""
        probabilities: list[tuple[float, ...]] = self._call("distributions", requests)
        return probabilities

    def close(self) -> None:
        """Do nothing: the pool's owner closes it."""

    def _policy_with(self, lm: object) -> str:
        return next(name for name, policy in self._policies.items() if policy.lm is lm)

    def _has(self, player: str) -> bool:
        return player in self._live or player in self._folders or player in self._messages

    def _call(self, method: str, requests: Sequence[ReplyRequest]) -> Any:
        players = {request.player for request in requests}
        for player in players:
            if not self._has(player):
                raise unknown_name("language-model player", player, [*self._live, *self._folders])
        return self._pool.call_engine(method, self.weights(players), to_remote_requests(requests))

    def _message(self, player: str) -> WeightMessage:
        """Return a player's newest weights, put into the store if they are not there yet."""
        if player in self._live:
            if player in self._stale:
                self._put_live(player)
        elif player not in self._messages:
            folder = self._folders[player]()
            files = self._cluster.put(snapshot_files(folder))
            self._messages[player] = WeightMessage(
                player, files, self._policy_of[player], is_adapter(folder), live=False
            )
        return self._messages[player]

    def _put_live(self, player: str) -> None:
        """Put a live player's weights into the store, unless they equal the last ones put there."""
        lm, files = self._live[player], live_files(self._live[player])
        self._stale.discard(player)
        if files != self._sent.get(player):
            self._sent[player] = files
            before = self._messages.get(player)
            number = 1 if before is None else int(before.version.rpartition("#")[2]) + 1
            self._messages[player] = WeightMessage(
                f"{player}#{number}",
                self._cluster.put(files),
                self._policy_of[player],
                isinstance(lm, AdapterLM),
                live=True,
                updates=lm.version,
            )
