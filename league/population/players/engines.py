"""The engines of one command: each is made when a player first needs it, and shared by all players that can."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from arena.records import Sampler
from arena.remote.usage import Usage
from league.config import RunConfig
from league.config.load import validate
from league.population.players.believer import Believer
from league.population.players.remote import open_remote
from league.population.players.scripted import scripted_player
from league.population.players.settings import PlayerSettings
from league.population.storage.run_dir import Run

if TYPE_CHECKING:
    from arena.lm.lora import Adapters
    from arena.samplers.openai_api import OpenAIApi
    from arena.samplers.policy_net import PolicyNetEngine
    from league.population.players.answers import AnswerStore, KeptPlayer
    from league.population.players.model_engine import ModelEngine
    from league.population.storage.population import Snapshot
    from league.theory.exact.exploitability import PolicyTable


class Engines:
    """The engines of one command; a context manager that stops their processes and threads.

    ``settings`` are those of its language models. Endpoints' answers are kept in ``answers``, and not asked for again.
    """

    def __init__(self, settings: PlayerSettings | None = None, answers: AnswerStore | None = None) -> None:
        self.settings = settings or PlayerSettings()
        self._answers = answers
        self._threads_before: int | None = None
        self._remote: dict[str, OpenAIApi | KeptPlayer] = {}
        self._scripted: dict[str, Sampler] = {}
        self._exploiters: dict[str, PolicyNetEngine] = {}
        self._believers: dict[tuple[str, str], Believer] = {}
        self._checkpoints: dict[tuple[str, ...], ModelEngine] = {}
        self._adapters: dict[Path, Adapters] = {}
        self._of_runs: dict[Path | tuple[str, str, str], ModelEngine] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._remote.values():
            server.close()
        for engine in [*self._of_runs.values(), *self._checkpoints.values()]:
            engine.close()
        if self._threads_before is not None:
            import torch

            torch.set_num_threads(self._threads_before)

    def check_settings(self, names: Iterable[str]) -> None:
        """Raise UsageError if settings were given that none of these players, which are resolved, takes."""
        self.settings.check_used(names, bool(self._remote or self._checkpoints or self._of_runs))

    def _set_threads(self) -> None:
        """Let torch, and a vLLM that is started next, use as many threads as the settings say."""
        if self.settings.threads is None or self._threads_before is not None:
            return
        import torch  # slow to import

        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(self.settings.threads)
        if hasattr(os, "sched_getaffinity"):
            cores = sorted(os.sched_getaffinity(0))[: self.settings.threads]
            os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, cores)))

    def refresh(self) -> None:
        """Forget what models have computed: later requests are then computed as in a separate command, bit for bit."""
        for engine in [*self._of_runs.values(), *self._checkpoints.values()]:
            engine.refresh()

    def usage(self) -> dict[str, Usage]:
        """Return the usage of each player behind a server."""
        return {text: engine.usage() for text, engine in self._remote.items()}

    def remote(self, text: str) -> OpenAIApi | KeptPlayer | None:
        """Return the engine of ``openai:...``, None for any other. Raises UsageError if its server does not answer."""
        if text.startswith("openai:") and text not in self._remote:
            engine = open_remote(text, self.settings.max_reply_tokens)
            self._remote[text] = engine if self._answers is None else self._answers.kept(engine)
        return self._remote.get(text)

    def scripted(self, text: str) -> Sampler | None:
        """Return the engine of a scripted player, None for any other. Raises UsageError for a bad argument."""
        if text not in self._scripted and (engine := scripted_player(text)):
            self._scripted[text] = engine
        return self._scripted.get(text)

    def exploiter(self, text: str, load: Callable[[], PolicyNetEngine]) -> PolicyNetEngine:
        """Return the engine of a best response, loaded at the first call."""
        if text not in self._exploiters:
            self._exploiters[text] = load()
        return self._exploiters[text]

    def believer(self, text: str, game: str, types: Callable[[], Sequence[PolicyTable]]) -> Believer:
        """Return the engine of ``bayes:...`` in a game, made at the first call."""
        if (text, game) not in self._believers:
            self._believers[text, game] = Believer(types)
        return self._believers[text, game]

    def checkpoint(self, text: str, folder: Path | str, game: str) -> ModelEngine:
        """Return the engine of a model that comes from no run: one for all in this process, or a separate one."""
        import torch  # slow to import

        from league.population.players.model_engine import check_engine, checkpoint_source, engine_kind

        device, dtype = ("cuda", "bfloat16") if torch.cuda.is_available() else ("cpu", "float32")
        model = {"source": str(folder), "device": device, "dtype": dtype}
        config = self.settings.run(validate({"games": {game: {}}, "model": model}))
        kind = engine_kind(config)
        key = (kind.separate_process * text, config.engine.kind, device, config.model.dtype)
        if key not in self._checkpoints:
            self._set_threads()
            config, source = checkpoint_source(config, folder)
            check_engine(config, config.policies)
            self._checkpoints[key] = kind.make(config, source)
        return self._checkpoints[key]

    def run_config(self, run: Run) -> RunConfig:
        """Return a run's configuration as its models play in this command."""
        if not self.settings.given():
            return run.config
        from league.population.players.model_engine import fitted  # torch is slow to import

        config = self.settings.run(run.config)
        return config if config.engine == run.config.engine else fitted(config)

    def of_run(self, run: Run, snapshot: Snapshot) -> ModelEngine:
        """Return the engine that a run's configuration names; runs share it unless it has its own processes."""
        from league.population.models.base_model import base_name, verified_base
        from league.population.players.model_engine import ModelSource, check_engine, engine_kind

        config = self.run_config(run)
        kind, model = engine_kind(config), config.model_of(snapshot.policy)
        base = run.path / base_name(config, snapshot.policy)
        key = base if kind.separate_process else (config.engine.kind, model.device, model.dtype)
        if key not in self._of_runs:

            def source() -> ModelSource:
                adapted = config.policy(snapshot.policy).adapted
                folder = verified_base(config, run.path, snapshot.policy) if adapted else snapshot.path
                return ModelSource.read(folder, adapters=adapted)

            self._set_threads()
            check_engine(config, {other.policy for other in run.population.all()})
            self._of_runs[key] = kind.make(config.for_policy(snapshot.policy), source)
        return self._of_runs[key]

    def adapters(self, run: Run, snapshot: Snapshot) -> Adapters | None:
        """Return the base with its adapters that an engine loads a snapshot's adapter into, one for each run.

        None for a full model, and for an engine that reads folders itself. Raises UsageError if the base has changed.
        """
        from league.population.players.model_engine import engine_kind

        config = self.run_config(run)
        if engine_kind(config).separate_process or not config.policy(snapshot.policy).adapted:
            return None
        from league.population.models.base_model import base_name, base_source, load_base

        folder = run.path / base_name(config, snapshot.policy)
        if folder not in self._adapters:
            from arena.lm.lora import Adapters

            base = load_base(config, run.path, snapshot.policy)
            self._adapters[folder] = Adapters(base, base_source(config, snapshot.policy))
        return self._adapters[folder]
