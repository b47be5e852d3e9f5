"""What stands in the processes of a cluster: engines of language models, workers that play matches, guests.

They get all they need from the process that steers the run: its configuration, the base model and weights come as
values, and nothing is read from its disk. One that replaces another begins with nothing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

from arena.adapters import Adapters
from arena.cluster import Died
from arena.errors import EngineError
from arena.lm import LanguageModel
from arena.pool import Played
from arena.questions import Answer, Question, to_answers, to_requests
from arena.ray_pool import Reached, RemoteEngine, RemoteStream, fetch
from arena.records import MatchRequest, Streaming, family
from arena.remote.usage import Usage
from arena.samplers.torch_lm import Like
from arena.scheduler import Engine, play
from games.errors import UsageError
from games.registry import make_game
from league.bases import base_source
from league.config import RunConfig
from league.engines import engine_on
from league.parcels import Base, Parcel, write_files
from league.player_engines import Engines
from league.prepared import prepared_process
from league.settings import run_roles


class EngineHost:
    """An engine of a run's language models. Players' weights come as parcels; those that are there already stay."""

    def __init__(self, config: RunConfig, base: Base, adapters: bool, cpus: float) -> None:
        ExitStack().enter_context(prepared_process(max(int(cpus), 1)))  # for as long as the process lives
        self._config, self._base = config, base
        self._disk = _Disk(base) if config.engine.kind == "vllm" else None
        self.engine = engine_on(config, self._disk.base if self._disk else "", adapters=adapters)
        self._held: dict[str, str] = {}  # versions by player
        self._live: dict[str, LanguageModel] = {}
        self._likes: dict[bool, Like] = {}

    def take(self, weights: Mapping[str, Parcel]) -> None:
        """Let players have these weights from now on."""
        news = {player: one for player, one in weights.items() if self._held.get(player) != one.version}
        for player, parcel in news.items():
            if self._disk is None:
                self._to_torch(player, parcel)
            else:
                self._to_vllm(player, parcel, self._disk)
            self._held[player] = parcel.version
        if any(parcel.live for parcel in news.values()):
            self.engine.forget()

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer a batch with the weights that there are."""
        return to_answers(questions, self.engine.sample(to_requests(questions)))

    async def submit(self, question: Question) -> Answer:
        """Answer one question, beside others."""
        return await _answered(cast(Streaming, self.engine), question)

    def sample(self, weights: Mapping[str, Parcel], questions: Sequence[Question]) -> list[Answer]:
        """Answer a batch with these weights."""
        self.take(weights)
        return self.answer(questions)

    def distributions(self, weights: Mapping[str, Parcel], questions: Sequence[Question]) -> list[tuple[float, ...]]:
        """Return for each question the probability of each legal reply, with these weights."""
        self.take(weights)
        return self.engine.distributions(to_requests(questions))

    def close(self) -> None:
        """End the engine, and remove what it has on the disk."""
        self.engine.close()
        if self._disk is not None:
            self._disk.folder.cleanup()

    def _to_torch(self, player: str, parcel: Parcel) -> None:
        unpacked = _Unpacked(parcel, self._like(parcel.adapter))
        if not parcel.live:
            self.engine.register(player, "", like=unpacked)
            return
        before, self._live[player] = self._live.get(player), unpacked.with_weights(Path())
        self.engine.add(player, self._live[player])
        if before is not None:
            before.release()

    def _to_vllm(self, player: str, parcel: Parcel, disk: _Disk) -> None:
        if parcel.live:
            self.engine.add(player, cast(LanguageModel, _Saves(parcel, disk)))  # vLLM only lets a live model save
            return
        folder = Path(disk.folder.name) / player.replace("/", "_")
        self.engine.register(player, folder, lambda: disk.write(parcel, folder))

    def _like(self, adapter: bool) -> Like:
        """Return what weights are loaded into: the base's adapters, or a model of its shape."""
        if adapter not in self._likes:
            model = self._config.model
            with tempfile.TemporaryDirectory() as folder:
                source = base_folder(self._base, Path(folder))
                base = LanguageModel.load(source, device=model.device, dtype=model.dtype)
            self._likes[adapter] = Adapters(base, base_source(self._config)) if adapter else base
        return self._likes[adapter]


class Worker:
    """Plays matches, with an engine of its own or another member's."""

    def __init__(self, config: RunConfig, base: Base, adapters: bool, cpus: float) -> None:
        self._config, self._roles = config, run_roles(config)
        self._make_host = partial(EngineHost, config, base, adapters, cpus)
        self._host: EngineHost | None = None
        self._outside = Engines()

    def play(
        self,
        requests: Sequence[MatchRequest],
        weights: Mapping[str, Parcel],
        engine: Reached | None,
        guests: Reached | None,
    ) -> Played:
        """Play matches with these weights. Raises Died if another member that it asks is gone."""
        models = self._models(weights, engine)
        server = None if guests is None else RemoteStream(guests)

        def engine_of(player: str) -> Engine:
            if player in weights:
                return models
            if server is not None and is_guest(player):
                return server
            outside = self._outside.outside(player)
            return models if outside is None else outside

        try:
            episodes = play(
                requests,
                roles_of=self._roles.__getitem__,
                engine_of=engine_of,
                make_game=make_game,
                in_flight=self._config.in_flight,
            )
        except EngineError as error:
            if isinstance(error.__cause__, Died):
                raise error.__cause__ from error
            raise
        traces = [turn.trace for one in family(episodes) for turn in one.turns if turn.trace is not None]
        return Played(episodes, sum(len(trace.prompt_ids) + len(trace.reply_ids) for trace in traces))

    def distributions(self, weights: Mapping[str, Parcel], questions: Sequence[Question]) -> list[tuple[float, ...]]:
        """As ``EngineHost.distributions``."""
        return self._own().distributions(weights, questions)

    def sample(self, weights: Mapping[str, Parcel], questions: Sequence[Question]) -> list[Answer]:
        """As ``EngineHost.sample``."""
        return self._own().sample(weights, questions)

    def close(self) -> None:
        """End its engines."""
        self._outside.__exit__()
        if self._host is not None:
            self._host.close()

    def _models(self, weights: Mapping[str, Parcel], reached: Reached | None) -> Engine:
        """Return the engine of language models, which has these weights."""
        if reached is None:
            self._own().take(weights)
            return self._own().engine
        reached.call("take", weights)
        return RemoteStream(reached) if self._config.engine.kind == "vllm" else RemoteEngine(reached)

    def _own(self) -> EngineHost:
        if self._host is None:
            self._host = self._make_host()
        return self._host


class GuestHost:
    """Players behind servers, whose limits hold for the whole run: all workers ask them here."""

    def __init__(self, folder: str) -> None:
        os.chdir(folder)  # names of files are as the person wrote them there
        self._engines = Engines()

    async def submit(self, question: Question) -> Answer:
        """Answer one question, beside others."""
        engine = self._engines.remote(question.player)
        if engine is None:
            raise UsageError(f"{question.player!r} is no player behind a server.")
        return await _answered(engine, question)

    def usage(self) -> dict[str, Usage]:
        """Return the account of each player."""
        return self._engines.usage()

    def close(self) -> None:
        """End the connections."""
        self._engines.__exit__()


def is_guest(player: str) -> bool:
    """Return whether a player belongs into the one ``GuestHost``."""
    return player.startswith("openai:")


def base_folder(base: Base, folder: Path) -> str:
    """Return where the base is: a hub id, or a folder with its files."""
    return base.source if base.files is None else str(write_files(fetch(base.files), folder))


class _Unpacked:
    """Loads a parcel when it is asked to."""

    def __init__(self, parcel: Parcel, like: Like) -> None:
        self._parcel, self._like = parcel, like

    def with_weights(self, folder: Path) -> LanguageModel:
        """Return a model with the parcel's weights; there is no folder."""
        with tempfile.TemporaryDirectory() as unpacked:
            return self._like.with_weights(write_files(fetch(self._parcel.files), Path(unpacked)))


class _Disk:
    """What an engine that reads weights from a disk has there, until it is closed."""

    def __init__(self, base: Base) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="league-engine-")
        self.base = base_folder(base, Path(self.folder.name) / "base")

    def write(self, parcel: Parcel, folder: Path) -> None:
        """Write a parcel as a snapshot would be: a whole model with all that the base has beside its weights."""
        if not parcel.adapter:
            shutil.copytree(self.base, folder, ignore=shutil.ignore_patterns("*.safetensors*"), dirs_exist_ok=True)
        write_files(fetch(parcel.files), folder)


class _Saves:
    """Saves a parcel as the model would be that it came from."""

    def __init__(self, parcel: Parcel, disk: _Disk) -> None:
        self._parcel, self._disk = parcel, disk

    def save(self, folder: Path) -> None:
        """Write its files."""
        self._disk.write(self._parcel, folder)


async def _answered(engine: Streaming, question: Question) -> Answer:
    """Return an engine's answer, with the question's generator as the engine left it when it had begun to answer."""
    reply: Future[Any] = engine.submit(to_requests([question])[0])
    state = question.rng.getstate()
    return Answer(await asyncio.wrap_future(reply), state)
