"""A session whose matches are played, and whose policies may learn, on a Ray cluster.

The process that steers the run draws matches, keeps the run's state and its disk, and sends weights: each version
once, through the cluster's object store. Everybody else may die.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from arena.adapters import AdapterLM, is_adapter
from arena.cluster import Cluster, Post
from arena.lm import LanguageModel
from arena.pool import Pool, Posts
from arena.questions import received, to_questions
from arena.ray_pool import RayCluster
from arena.records import Episode, MatchRequest, Reply, ReplyRequest
from arena.remote.usage import Usage
from arena.samplers.torch_lm import Like
from games.errors import unknown_name
from league.bases import verified_base
from league.checks_cluster import check_cluster, check_members, places
from league.cluster_host import EngineHost, GuestHost, Worker, is_guest
from league.cluster_learner import LearnsOnCluster
from league.config import RunConfig
from league.engines import ModelEngine, check_context
from league.learner_process import learners_of
from league.learning import Learner, LearnsHere
from league.parcels import Base, Parcel, live_files, read_files, saved_files, snapshot_files
from league.player_engines import Engines
from league.prepared import cores
from league.run_state import RunState
from league.start import Roles
from league.venue import Metrics, Venue, scripted_players


class OnCluster:
    """A ``Site`` on a cluster."""

    def __init__(self, config: RunConfig, run_dir: Path, address: str) -> None:
        """Take where the cluster is; see ``RayCluster``."""
        self._config, self._run_dir, self._address = config, run_dir, address
        self._learners = learners_of(config)
        check_members(config, len(self._learners))  # Ray takes a while to start
        self.device = "cpu" if self._learners else config.model.device
        self._base: Base | None = None
        self._pool: Pool | None = None
        self._learner: LearnsOnCluster | None = None

    def __enter__(self) -> Self:
        self._cluster = RayCluster(self._address, cores())
        try:
            check_cluster(self._config, len(self._learners), self._cluster.nodes())
            bundles, self._bundles = places(self._config, len(self._learners))
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
        """See ``Site``."""
        if not self._learners:
            return LearnsHere(self._config, state)
        wanted = self._config.cluster
        self._learner = LearnsOnCluster(
            self._cluster,
            self._config,
            self._run_dir,
            state,
            self._base_of(state),
            Post("learner", object, (), wanted.learner_cpus, wanted.learner_gpus, bundles=self._places("learner")),
        )
        return self._learner

    def venue(self, config: RunConfig, run_dir: Path, roles: Roles, state: RunState, engines: Engines) -> Venue:
        """See ``Site``."""
        guests = scripted_players(config, engines)
        check_context(config, roles, next(iter(state.policies.values())).lm)
        self._pool = Pool(
            self._cluster,
            self._posts(self._base_of(state), state, any(map(is_guest, guests))),
            matches=config.cluster.matches,
        )
        return Spread(self._pool, self._cluster)

    def usage(self) -> dict[str, Usage]:
        """See ``Site``."""
        asked = (*self._config.evaluation.anchors, *self._config.matchmaking.guests)
        if self._pool is None or not any(map(is_guest, asked)):
            return {}
        account: dict[str, Usage] = self._pool.guests("usage")
        return account

    def _posts(self, base: Base, state: RunState, guests: bool) -> Posts:
        """Return who plays."""
        config, wanted = self._config, self._config.cluster
        adapters = any(config.policy(name).kind == "lora" for name in state.policies)
        own = (config, base, adapters, wanted.engine_cpus)
        engine = Post(
            "engine",
            EngineHost,
            own,
            wanted.engine_cpus,
            wanted.engine_gpus,
            streams=config.engine.kind == "vllm",
            bundles=self._places("engine"),
        )
        worker = Post("worker", Worker, own, wanted.worker_cpus)
        if not wanted.engines:
            worker = worker._replace(cpus=engine.cpus, gpus=engine.gpus, bundles=self._places("worker"))
        server = Post("guests", GuestHost, (str(Path.cwd()),), 0.0, streams=True, here=True) if guests else None
        return Posts(worker, wanted.workers, engine if wanted.engines else None, wanted.engines, server)

    def _places(self, kind: str) -> tuple[int, ...]:
        return self._bundles.get(kind, ())

    def _base_of(self, state: RunState) -> Base:
        """Return the base of all policies; put where everybody gets it, once."""
        if self._base is None:
            adapted = any(self._config.policy(name).kind == "lora" for name in state.policies)
            source = verified_base(self._config, self._run_dir) if adapted else ""
            if adapted and not Path(source).is_dir():
                self._base = Base(str(source), None)
            else:
                whole = next(iter(state.policies.values())).lm
                files = read_files(Path(source)) if adapted else saved_files(whole)
                self._base = Base("", self._cluster.put(files))
        return self._base


class Spread:
    """A ``Venue`` whose matches are spread over a pool."""

    def __init__(self, pool: Pool, cluster: Cluster) -> None:
        self._pool, self._sender = pool, ClusterEngine(pool, cluster)
        self.engine: ModelEngine = self._sender
        self._before: dict[int, int] = {}

    def play(self, requests: Sequence[MatchRequest]) -> list[Episode]:
        """See ``Venue``."""
        seated = {player for one in requests for player in one.players}
        seated |= {player for one in requests for cast in one.cast for player in cast.players}
        return self._pool.play(requests, self._sender.weights(seated))

    def metrics(self) -> Metrics:
        """Return each engine's share of the matches since the last call, where there are several."""
        now = dict(self._pool.matches_by_engine)
        played = {number: now[number] - self._before.get(number, 0) for number in now}
        self._before, total = now, sum(played.values())
        return {f"cluster/share/{number}": one / total for number, one in sorted(played.items())} if total else {}

    def close(self) -> None:
        """See ``Venue``."""
        self._pool.close()


class ClusterEngine:
    """The engines of a pool, as a ``ModelEngine``: it has all players' weights, and sends them when they are asked."""

    def __init__(self, pool: Pool, cluster: Cluster) -> None:
        self._pool, self._cluster = pool, cluster
        self._live: dict[str, LanguageModel] = {}
        self._stale: set[str] = set()  # live players whose weights may have changed
        self._sources: dict[str, Callable[[], Path]] = {}
        self._parcels: dict[str, Parcel] = {}  # by player, the newest
        self._sent: dict[str, Mapping[str, bytes]] = {}  # by live player, to see whether they have changed

    @property
    def tokens(self) -> int:
        """Prompt and reply tokens that the replies so far consist of."""
        return self._pool.tokens

    def add(self, player: str, lm: LanguageModel) -> None:
        """See ``ModelEngine``."""
        self._live[player] = lm
        self._stale.add(player)

    def register(
        self, player: str, source: str | Path, check: Callable[[], object] | None = None, like: Like | None = None
    ) -> None:
        """See ``ModelEngine``."""

        def folder() -> Path:
            if check is not None:
                check()
            return Path(source)

        self._sources[player] = folder

    def forget(self) -> None:
        """See ``ModelEngine``."""
        self._stale.update(self._live)

    def rest(self) -> None:
        """Do nothing: who learns has other GPUs, or a part of one."""

    def weights(self, players: Sequence[str] | set[str]) -> dict[str, Parcel]:
        """Return the present weights of those among the players that are language models."""
        return {one: self._parcel(one) for one in sorted(players) if one in self._live or one in self._sources}

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """See ``ModelEngine``."""
        return received(requests, self._asked("sample", requests))

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """See ``ModelEngine``."""
        found: list[tuple[float, ...]] = self._asked("distributions", requests)
        return found

    def close(self) -> None:
        """Do nothing: the pool's owner closes it."""

    def _asked(self, method: str, requests: Sequence[ReplyRequest]) -> Any:
        players = {request.player for request in requests}
        for player in players:
            if player not in self._live and player not in self._sources:
                raise unknown_name("language-model player", player, [*self._live, *self._sources])
        return self._pool.ask(method, self.weights(players), to_questions(requests))

    def _parcel(self, player: str) -> Parcel:
        if player in self._live:
            if player in self._stale:
                self._send(player)
        elif player not in self._parcels:
            folder = self._sources[player]()
            files = self._cluster.put(snapshot_files(folder))
            self._parcels[player] = Parcel(player, files, is_adapter(folder), live=False)
        return self._parcels[player]

    def _send(self, player: str) -> None:
        """Put a live player's weights into the store, unless they are those that lie there."""
        lm, files = self._live[player], live_files(self._live[player])
        self._stale.discard(player)
        if files != self._sent.get(player):
            self._sent[player] = files
            before = self._parcels.get(player)
            number = 1 if before is None else int(before.version.rpartition("#")[2]) + 1
            self._parcels[player] = Parcel(
                f"{player}#{number}", self._cluster.put(files), isinstance(lm, AdapterLM), live=True
            )
