"""An engine's process on a cluster: the language models of a run, which it loads as their weights change.

The driver process sends it everything that it needs: the configuration, base models and weights are values, and nothing
is read from the driver's disk. Policies on one base model share an engine; a replacement starts empty.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from arena.cluster.messages import RemoteReply, RemoteRequest, to_remote_replies, to_requests
from arena.cluster.ray_cluster import fetch
from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters
from arena.process import tuned_process
from arena.records import Streaming
from arena.samplers.torch_lm import LoadsWeights
from league.config import RunConfig
from league.population.models.base_model import base_source
from league.population.players.model_engine import ModelEngine, ModelSource, engine_kind
from league.training.backends.engines_by_model import asked_by_engine
from league.training.backends.weight_transfer import BaseWeights, WeightMessage, write_files


class EngineWorker:
    """The engines of a run's language models, one for each base, which load weights whose version has changed."""

    def __init__(self, config: RunConfig, bases: Mapping[str, BaseWeights], cpus: float) -> None:
        """``bases`` are by policy."""
        ExitStack().enter_context(tuned_process(max(int(cpus), 1)))  # for as long as the process lives
        self._on_base: dict[str, _EngineOnBase] = {}  # by policy
        for first, group in config.by_model(bases).items():
            self._on_base |= dict.fromkeys(group, _EngineOnBase(config, first, bases[first]))
        self._engines: dict[str, ModelEngine] = {}  # by player
        self._versions: dict[str, str] = {}  # of the loaded weights, by player

    def load_weights(self, weights: Mapping[str, WeightMessage]) -> None:
        """Let players have these weights from now on."""
        changed = {
            player: message for player, message in weights.items() if self._versions.get(player) != message.version
        }
        for player, message in changed.items():
            self._on_base[message.policy].load(player, message)
            self._engines[player] = self._on_base[message.policy].engine
            self._versions[player] = message.version
        if any(message.live for message in changed.values()):
            for on_base in self._all():
                on_base.engine.refresh()

    def engine_of(self, player: str) -> ModelEngine:
        """Return the engine that has a player's weights."""
        return self._engines[player]

    def answer(self, requests: Sequence[RemoteRequest]) -> list[RemoteReply]:
        """Answer a batch with the loaded weights."""
        local_requests = to_requests(requests)
        replies = asked_by_engine(local_requests, self.engine_of, lambda engine, batch: engine.sample(batch))
        return to_remote_replies(requests, replies)

    async def submit(self, request: RemoteRequest) -> RemoteReply:
        """Answer one request, concurrently with others."""
        return await submit(cast(Streaming, self.engine_of(request.player)), request)

    def sample(self, weights: Mapping[str, WeightMessage], requests: Sequence[RemoteRequest]) -> list[RemoteReply]:
        """Answer a batch with these weights."""
        self.load_weights(weights)
        return self.answer(requests)

    def distributions(
        self, weights: Mapping[str, WeightMessage], requests: Sequence[RemoteRequest]
    ) -> list[tuple[float, ...]]:
        """Return for each request the probability of each legal reply, with these weights."""
        self.load_weights(weights)
        local_requests = to_requests(requests)
        return asked_by_engine(local_requests, self.engine_of, lambda engine, batch: engine.distributions(batch))

    def close(self) -> None:
        """Close the engines, and remove their files."""
        for on_base in self._all():
            on_base.close()

    def _all(self) -> list[_EngineOnBase]:
        return list(dict.fromkeys(self._on_base.values()))


class _EngineOnBase:
    """The engine of the policies on one base model."""

    def __init__(self, config: RunConfig, policy: str, base: BaseWeights) -> None:
        """``policy`` is one of those on this base."""
        self._config, self._policy, self._base = config.for_policy(policy), policy, base
        self._folder = _EngineFolder(base)
        kind = engine_kind(config)
        self.load = self._load_from_disk if kind.separate_process else self._load_in_memory
        self.engine = kind.make(self._config, lambda: ModelSource.read(self._folder.base, adapters=base.adapters))
        self._live: dict[str, LanguageModel] = {}
        self._loaders: dict[bool, LoadsWeights] = {}

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
            # for a live model the engine only calls ``save``
            self.engine.add(player, cast(LanguageModel, _MessageSaver(message, self._folder)))
            return
        folder = self._folder.path / player.replace("/", "_")
        self.engine.register(player, folder, lambda: self._folder.write(message, folder))

    def _loader(self, adapter: bool) -> LoadsWeights:
        """Return the object that loads weights: the base's adapters, or a model of its shape."""
        if adapter not in self._loaders:
            model = self._config.model
            with tempfile.TemporaryDirectory() as folder:
                source = base_folder(self._base, Path(folder))
                base = LanguageModel.load(source, device=model.device, dtype=model.dtype)
            self._loaders[adapter] = Adapters(base, base_source(self._config, self._policy)) if adapter else base
        return self._loaders[adapter]


def base_folder(base: BaseWeights, folder: Path) -> str:
    """Return the base's location: a hub id, or ``folder`` with its files."""
    return base.source if base.files is None else str(write_files(fetch(base.files), folder))


class _MessageLoader:
    """Fetches the weights of a message and loads them, as an engine's ``LoadsWeights``."""

    def __init__(self, message: WeightMessage, loader: LoadsWeights) -> None:
        self._message, self._loader = message, loader

    def with_weights(self, folder: Path) -> LanguageModel:
        """Return a model with the message's weights; ``folder`` is not read."""
        with tempfile.TemporaryDirectory() as unpacked:
            lm = self._loader.with_weights(write_files(fetch(self._message.files), Path(unpacked)))
        lm.version = self._message.updates
        return lm


class _EngineFolder:
    """The temporary folder of an engine that reads weights from a disk."""

    def __init__(self, base: BaseWeights) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="league-engine-")
        self.path = Path(self._folder.name)
        self._base = base

    @cached_property
    def base(self) -> str:
        """The base's location, a hub id or a folder; the folder is written at the first access."""
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
    """Saves the weights of a message as their model would."""

    def __init__(self, message: WeightMessage, folder: _EngineFolder) -> None:
        self._message, self._folder = message, folder
        self.version = message.updates

    def save(self, folder: Path) -> None:
        """Write the model's files."""
        self._folder.write(self._message, folder)


async def submit(engine: Streaming, request: RemoteRequest) -> RemoteReply:
    """Return an engine's reply, with the state of the request's generator after the engine's ``submit``."""
    reply: Future[Any] = engine.submit(to_requests([request])[0])
    state = request.rng.getstate()
    return RemoteReply(await asyncio.wrap_future(reply), state)
