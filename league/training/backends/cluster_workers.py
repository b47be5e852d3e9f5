"""The objects in a cluster's processes that play: workers for matches, and the players behind servers.

The driver process sends each of them everything that it needs: the configuration, base models and weights are values,
and nothing is read from the driver's disk. A replacement starts empty.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial

from arena.cluster.fed_play import FedPlay
from arena.cluster.interface import WorkerDied
from arena.cluster.match_pool import PlayedChunk
from arena.cluster.messages import RemoteReply, RemoteRequest
from arena.cluster.ray_cluster import RemoteActor, RemoteEngine, RemoteStream
from arena.errors import EngineError
from arena.process import tuned_process
from arena.records import Episode, MatchRequest, flatten_episodes
from arena.remote.usage import Usage
from arena.scheduler import Engine, rounds
from games.common.errors import UsageError
from games.registry import make_game
from league.config import RunConfig
from league.population.players.engines import Engines
from league.population.players.fixed import fixed_engine
from league.population.players.model_engine import engine_kind
from league.population.players.outside import outside_engine
from league.training.backends.engine_worker import EngineWorker, submit
from league.training.backends.weight_transfer import BaseWeights, WeightMessage
from roles.role import Roles

PATIENCE = 1.0  # seconds that a round waits for another process: waiting is no sign that this one hangs


class MatchWorker:
    """Plays matches, with an engine in its own process or in another worker's.

    ``play`` may be called while another call plays: the matches are then played together (``FedPlay``).
    """

    def __init__(self, config: RunConfig, bases: Mapping[str, BaseWeights], cpus: float, roles: Roles) -> None:
        """``roles`` are the roles that matches are played with; a fixed one is as its player is asked."""
        self._config, self._roles = config, roles
        self._tuned = ExitStack()  # an engine in this process tunes it by itself
        self._make_engine = partial(EngineWorker, config, bases, cpus)
        self._engine: EngineWorker | None = None
        self._outside = outside = Engines()
        self._find = cache(lambda name: outside_engine(name, outside) or fixed_engine(name, self._roles, outside))
        self._models: Callable[[str], Engine] | None = None  # engines of language models for the current chunks
        self._model_players: set[str] = set()
        self._fed = FedPlay()
        self.progress = 0  # rounds of play: a match or an engine that spins adds none

    def play(
        self,
        requests: Sequence[MatchRequest],
        weights: Mapping[str, WeightMessage],
        engine: RemoteActor | None,
        remote_players: RemoteActor | None,
    ) -> PlayedChunk:
        """Play matches with these weights. Raises WorkerDied if another worker that it calls has died."""
        server = None if remote_players is None else RemoteStream(remote_players)

        def play_fed(source: Iterable[MatchRequest], on_episode: Callable[[Episode], None]) -> None:
            played = rounds(
                source,
                roles_of=self._roles.__getitem__,
                engine_of=partial(self._engine_of, server),
                make_game=make_game,
                in_flight=self._config.in_flight,
                patience=PATIENCE,
            )
            for ended in played:
                self.progress += 1
                for episode in ended.values():
                    on_episode(episode)

        try:
            episodes = self._fed.play(requests, partial(self._load, weights, engine), play_fed)
        except EngineError as error:
            if isinstance(error.__cause__, WorkerDied):
                raise error.__cause__ from error
            raise
        turns = [turn for episode in flatten_episodes(episodes) for turn in episode.turns]
        traces = [turn.trace for turn in turns if turn.trace is not None]
        return PlayedChunk(episodes, sum(len(trace.prompt_ids) + len(trace.reply_ids) for trace in traces))

    def distributions(
        self, weights: Mapping[str, WeightMessage], requests: Sequence[RemoteRequest]
    ) -> list[tuple[float, ...]]:
        """See ``EngineWorker.distributions``."""
        return self._fed.run(lambda: self._local_engine().distributions(weights, requests))

    def sample(self, weights: Mapping[str, WeightMessage], requests: Sequence[RemoteRequest]) -> list[RemoteReply]:
        """See ``EngineWorker.sample``."""
        return self._fed.run(lambda: self._local_engine().sample(weights, requests))

    def close(self) -> None:
        """Close its engines."""
        self._outside.__exit__()
        self._tuned.close()
        if self._engine is not None:
            self._fed.run(self._engine.close)
        self._fed.close()

    def _load(self, weights: Mapping[str, WeightMessage], engine: RemoteActor | None) -> None:
        """Let the engine of language models have these weights."""
        if engine is None:
            self._local_engine().load_weights(weights)
            self._models = self._local_engine().engine_of
        else:
            if not self._model_players:
                self._tuned.enter_context(tuned_process(1))
            engine.call("load_weights", weights)
            remote = RemoteStream(engine) if engine_kind(self._config).streams else RemoteEngine(engine)
            self._models = lambda _: remote
        self._model_players.update(weights)

    def _engine_of(self, server: Engine | None, player: str) -> Engine:
        if player not in self._model_players:
            if server is not None and is_remote_player(player):
                return server
            if engine := self._find(player):
                return engine
        assert self._models is not None  # a chunk was loaded before its matches
        return self._models(player)

    def _local_engine(self) -> EngineWorker:
        if self._engine is None:
            self._engine = self._make_engine()
        return self._engine


class RemotePlayersWorker:
    """The players behind servers. It exists once in a run, because a server's rate limit holds for the whole run."""

    def __init__(self, folder: str) -> None:
        os.chdir(folder)  # file names in the configuration are relative to the driver's folder
        self._engines = Engines()

    async def submit(self, request: RemoteRequest) -> RemoteReply:
        """Answer one request, concurrently with others."""
        engine = self._engines.remote(request.player)
        if engine is None:
            raise UsageError(f"{request.player!r} is not a player behind a server. Such a player is openai:MODEL.")
        return await submit(engine, request)

    def usage(self) -> dict[str, Usage]:
        """Return the usage of each player."""
        return self._engines.usage()

    def close(self) -> None:
        """Close the connections."""
        self._engines.__exit__()


def is_remote_player(player: str) -> bool:
    """Return whether a player is behind a server, so that ``RemotePlayersWorker`` answers for it."""
    return player.startswith("openai:")
