"""The objects in a cluster's processes: engines of language models, workers that play matches, remote players.

The driver process sends each of them all that it needs: the configuration, the base model and weights are values, and
nothing is read from the driver's disk. A replacement starts empty.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, cast

from arena.cluster.fed_play import FedPlay
from arena.cluster.interface import WorkerDied
from arena.cluster.match_pool import PlayedChunk
from arena.cluster.messages import RemoteReply, RemoteRequest, to_remote_replies, to_requests
from arena.cluster.ray_cluster import RemoteActor, RemoteEngine, RemoteStream, fetch
from arena.errors import EngineError
from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters
from arena.process import tuned_process
from arena.records import Episode, MatchRequest, Streaming, flatten_episodes
from arena.remote.usage import Usage
from arena.samplers.torch_lm import LoadsWeights
from arena.scheduler import Engine, play
from games.common.errors import UsageError
from games.registry import make_game
from league.backends.weight_transfer import BaseWeights, WeightMessage, write_files
from league.config import RunConfig
from league.config.load import run_roles
from league.models.base_model import base_source
from league.players.engines import Engines
from league.players.given import given_engine
from league.players.model_engine import ModelSource, engine_kind
from league.players.outside import outside_engine
from roles.role import Roles


class EngineWorker:
    """An engine of a run's language models, which loads a player's weights when their version has changed."""

    def __init__(self, config: RunConfig, base: BaseWeights, adapters: bool, cpus: float) -> None:
        ExitStack().enter_context(tuned_process(max(int(cpus), 1)))  # for as long as the process lives
        self._config, self._base = config, base
        self._folder = _EngineFolder(base)
        kind = engine_kind(config)
        self._load = self._load_from_disk if kind.separate_process else self._load_in_memory
        self.engine = kind.make(config, lambda: ModelSource.read(self._folder.base, adapters=adapters))
        self._versions: dict[str, str] = {}  # of the loaded weights, by player
        self._live: dict[str, LanguageModel] = {}
        self._loaders: dict[bool, LoadsWeights] = {}

    def load_weights(self, weights: Mapping[str, WeightMessage]) -> None:
        """Let players have these weights from now on."""
        changed = {
            player: message for player, message in weights.items() if self._versions.get(player) != message.version
        }
        for player, message in changed.items():
            self._load(player, message)
            self._versions[player] = message.version
        if any(message.live for message in changed.values()):
            self.engine.refresh()

    def answer(self, requests: Sequence[RemoteRequest]) -> list[RemoteReply]:
        """Answer a batch with the loaded weights."""
        return to_remote_replies(requests, self.engine.sample(to_requests(requests)))

    async def submit(self, request: RemoteRequest) -> RemoteReply:
        """Answer one request, concurrently with others."""
        return await _submit(cast(Streaming, self.engine), request)

    def sample(self, weights: Mapping[str, WeightMessage], requests: Sequence[RemoteRequest]) -> list[RemoteReply]:
        """Answer a batch with these weights."""
        self.load_weights(weights)
        return self.answer(requests)

    def distributions(
        self, weights: Mapping[str, WeightMessage], requests: Sequence[RemoteRequest]
    ) -> list[tuple[float, ...]]:
        """Return for each request the probability of each legal reply, with these weights."""
        self.load_weights(weights)
        return self.engine.distributions(to_requests(requests))

    def close(self) -> None:
        """Close the engine, and remove its files."""
        self.engine.close()
        self._folder.close()

    def _load_in_memory(self, player: str, message: WeightMessage) -> None:
        loader = _MessageLoader(message, self._loader(message.adapter))
        if not message.live:
            self.engine.register(player, "", like=loader)
            return
        before, self._live[player] = self._live.get(player), loader.with_weights(Path())
        self.engine.add(player, self._live[player])
        if before is not None:
            before.release()

    def _load_from_disk(self, player: str, message: WeightMessage) -> None:
        if message.live:
            # of a live model the engine calls ``save`` alone
            self.engine.add(player, cast(LanguageModel, _MessageSaver(message, self._folder)))
            return
        folder = self._folder.path / player.replace("/", "_")
        self.engine.register(player, folder, lambda: self._folder.write(message, folder))

    def _loader(self, adapter: bool) -> LoadsWeights:
        """Return what loads weights: the base's adapters, or a model of its shape."""
        if adapter not in self._loaders:
            model = self._config.model
            with tempfile.TemporaryDirectory() as folder:
                source = base_folder(self._base, Path(folder))
                base = LanguageModel.load(source, device=model.device, dtype=model.dtype)
            self._loaders[adapter] = Adapters(base, base_source(self._config, "")) if adapter else base
        return self._loaders[adapter]


class MatchWorker:
    """Plays matches, with an engine in its own process or in another worker's.

    ``play`` may be called while another call plays: the matches are then played side by side (``FedPlay``).
    """

    def __init__(
        self, config: RunConfig, base: BaseWeights, adapters: bool, cpus: float, roles: Roles | None = None
    ) -> None:
        """``roles`` are those that matches are played with, where some are given to players; None: the run's."""
        self._config, self._roles = config, roles or run_roles(config)
        self._make_engine = partial(EngineWorker, config, base, adapters, cpus)
        self._engine: EngineWorker | None = None
        self._outside = outside = Engines()
        self._find = cache(lambda name: outside_engine(name, outside) or given_engine(name, self._roles, outside))
        self._models: Engine | None = None  # the engine of language models for the present chunks
        self._model_players: set[str] = set()
        self._fed = FedPlay()

    def play(
        self,
        requests: Sequence[MatchRequest],
        weights: Mapping[str, WeightMessage],
        engine: RemoteActor | None,
        remote_players: RemoteActor | None,
    ) -> PlayedChunk:
        """Play matches with these weights. Raises WorkerDied if another worker that it calls has died."""
        server = None if remote_players is None else RemoteStream(remote_players)

        def play_fed(source: Iterable[MatchRequest], on_episode: Callable[[Episode], None]) -> object:
            return play(
                source,
                roles_of=self._roles.__getitem__,
                engine_of=partial(self._engine_of, server),
                make_game=make_game,
                in_flight=self._config.in_flight,
                on_episode=on_episode,
            )

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
        if self._engine is not None:
            self._fed.run(self._engine.close)
        self._fed.close()

    def _load(self, weights: Mapping[str, WeightMessage], engine: RemoteActor | None) -> None:
        """Let the engine of language models have these weights."""
        if engine is None:
            self._local_engine().load_weights(weights)
            self._models = self._local_engine().engine
        else:
            engine.call("load_weights", weights)
            self._models = RemoteStream(engine) if engine_kind(self._config).streams else RemoteEngine(engine)
        self._model_players.update(weights)

    def _engine_of(self, server: Engine | None, player: str) -> Engine:
        if player not in self._model_players:
            if server is not None and is_remote_player(player):
                return server
            if engine := self._find(player):
                return engine
        assert self._models is not None  # a chunk was loaded before its matches
        return self._models

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
        return await _submit(engine, request)

    def usage(self) -> dict[str, Usage]:
        """Return the usage of each player."""
        return self._engines.usage()

    def close(self) -> None:
        """Close the connections."""
        self._engines.__exit__()


def is_remote_player(player: str) -> bool:
    """Return whether a player is behind a server, so that ``RemotePlayersWorker`` answers for it."""
    return player.startswith("openai:")


def base_folder(base: BaseWeights, folder: Path) -> str:
    """Return where the base is: a hub id, or ``folder`` with its files."""
    return base.source if base.files is None else str(write_files(fetch(base.files), folder))


class _MessageLoader:
    """Fetches the weights of a message and loads them, as an engine's ``LoadsWeights``."""

    def __init__(self, message: WeightMessage, loader: LoadsWeights) -> None:
        self._message, self._loader = message, loader

    def with_weights(self, folder: Path) -> LanguageModel:
        """Return a model with the message's weights; ``folder`` is not read."""
        with tempfile.TemporaryDirectory() as unpacked:
            return self._loader.with_weights(write_files(fetch(self._message.files), Path(unpacked)))


class _EngineFolder:
    """The temporary folder of an engine that reads weights from a disk."""

    def __init__(self, base: BaseWeights) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="league-engine-")
        self.path = Path(self._folder.name)
        self._base = base

    @cached_property
    def base(self) -> str:
        """Where the base is, a hub id or a folder; the folder is written at the first access."""
        return base_folder(self._base, self.path / "base")

    def write(self, message: WeightMessage, folder: Path) -> None:
        """Write a message as a snapshot would be; a whole model gets the base's other files."""
        if not message.adapter:
            shutil.copytree(self.base, folder, ignore=shutil.ignore_patterns("*.safetensors*"), dirs_exist_ok=True)
        write_files(fetch(message.files), folder)

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


class _MessageSaver:
    """Saves the weights of a message as the model that they came from would."""

    def __init__(self, message: WeightMessage, folder: _EngineFolder) -> None:
        self._message, self._folder = message, folder

    def save(self, folder: Path) -> None:
        """Write the model's files."""
        self._folder.write(self._message, folder)


async def _submit(engine: Streaming, request: RemoteRequest) -> RemoteReply:
    """Return an engine's reply, with the state of the request's generator after the engine's ``submit``."""
    reply: Future[Any] = engine.submit(to_requests([request])[0])
    state = request.rng.getstate()
    return RemoteReply(await asyncio.wrap_future(reply), state)
