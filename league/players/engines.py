"""The engines of one command: each is made when a player first needs it, and shared by all players that can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from arena.records import Sampler
from arena.remote.usage import Usage
from league.players.remote import open_remote
from league.players.scripted import scripted_player
from league.storage.run_dir import Run

if TYPE_CHECKING:
    from arena.lm.lora import Adapters
    from arena.samplers.openai_api import OpenAIApi
    from arena.samplers.policy_net import PolicyNetEngine
    from arena.samplers.torch_lm import TorchLM
    from league.players.model_engine import ModelEngine
    from league.storage.population import Snapshot


class Engines:
    """The engines of one command; a context manager that stops their processes and threads."""

    def __init__(self) -> None:
        self._remote: dict[str, OpenAIApi] = {}
        self._scripted: dict[str, Sampler] = {}
        self._exploiters: dict[str, PolicyNetEngine] = {}
        self._checkpoints: dict[tuple[str, str], TorchLM] = {}
        self._adapters: dict[Path, Adapters] = {}
        self._of_runs: dict[Path | tuple[str, str, str], ModelEngine] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._remote.values():
            server.close()
        for engine in self._of_runs.values():
            engine.close()

    def usage(self) -> dict[str, Usage]:
        """Return the usage of each player behind a server."""
        return {text: engine.usage() for text, engine in self._remote.items()}

    def remote(self, text: str) -> OpenAIApi | None:
        """Return the engine of ``openai:...``, None for any other. Raises UsageError if its server does not answer."""
        if text.startswith("openai:") and text not in self._remote:
            self._remote[text] = open_remote(text)
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

    def checkpoints(self, device: str, dtype: str) -> TorchLM:
        """Return the engine of models that come from no run, on a torch device, with weights of this dtype."""
        if (device, dtype) not in self._checkpoints:
            from arena.samplers.torch_lm import TorchLM  # torch is slow to import

            self._checkpoints[device, dtype] = TorchLM(device=device, dtype=dtype)
        return self._checkpoints[device, dtype]

    def of_run(self, run: Run, snapshot: Snapshot) -> ModelEngine:
        """Return the engine that a run's configuration names; runs share it unless it has processes of its own."""
        from league.models.base_model import verified_base
        from league.players.model_engine import ModelSource, check_engine, engine_kind

        config, kind = run.config, engine_kind(run.config)
        key = run.path if kind.separate_process else (config.engine.kind, config.model.device, config.model.dtype)
        if key not in self._of_runs:

            def source() -> ModelSource:
                adapted = config.policy(snapshot.policy).adapted
                folder = verified_base(config, run.path) if adapted else snapshot.path
                return ModelSource.read(folder, adapters=adapted)

            check_engine(config, {other.policy for other in run.population.all()})
            self._of_runs[key] = kind.make(config, source)
        return self._of_runs[key]

    def adapters(self, run: Run, snapshot: Snapshot) -> Adapters | None:
        """Return the base with its adapters that an engine loads a snapshot's adapter into, one for each run.

        None for a full model, and for an engine that reads folders itself. Raises UsageError if the base has changed.
        """
        from league.players.model_engine import engine_kind

        if engine_kind(run.config).separate_process or not run.config.policy(snapshot.policy).adapted:
            return None
        if run.path not in self._adapters:
            from arena.lm.lora import Adapters
            from league.models.base_model import base_source, load_base

            self._adapters[run.path] = Adapters(load_base(run.config, run.path), base_source(run.config))
        return self._adapters[run.path]
