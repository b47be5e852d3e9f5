"""The engines of one command: each is made when a player first needs it, and shared by all that can share it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from arena.records import Sampler
from arena.remote.usage import Usage
from arena.samplers.scripted import Always, Equilibrium, Mcts, Random, Script
from games.errors import UsageError
from games.registry import make_game
from league.remote_players import open_remote
from league.runs import Run

if TYPE_CHECKING:
    from arena.adapters import Adapters
    from arena.samplers.network import Network
    from arena.samplers.openai_api import OpenAIApi
    from arena.samplers.torch_lm import TorchLM
    from league.engines import ModelEngine
    from league.population import Snapshot


def _mcts(sims: str) -> Sampler:
    if not sims.isdecimal():
        raise UsageError(f"mcts takes a number of simulations, for example mcts:100, not {sims!r}.")
    return Mcts(int(sims))


# Players that are rules, as they are written. What a person writes after a colon is given to the constructor.
SCRIPTED: dict[str, Callable[..., Sampler]] = {
    "random": Random,
    "always:ACTION": Always,
    "equilibrium": Equilibrium,
    "mcts:SIMS": _mcts,
    "scripted:NAME": Script,
}


def _scripted(text: str) -> Sampler | None:
    name, _, argument = text.partition(":")
    for form, make in SCRIPTED.items():
        if form.startswith(f"{name}:"):
            return make(argument)
        if form == text:
            return make()
    return None


class Engines:
    """The engines of one command, made when a player first needs them; on leaving, their processes and threads end."""

    def __init__(self) -> None:
        self._remote: dict[str, OpenAIApi] = {}
        self._scripted: dict[str, Sampler] = {}
        self._exploiters: dict[str, Network] = {}
        self._torch: dict[tuple[str, str], TorchLM] = {}
        self._adapters: dict[Path, Adapters] = {}
        self._vllm: dict[Path, ModelEngine] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._remote.values():
            server.close()
        for engine in self._vllm.values():
            engine.close()

    def usage(self) -> dict[str, Usage]:
        """Return the account of each player behind a server."""
        return {text: engine.usage() for text, engine in self._remote.items()}

    def outside(self, text: str) -> Sampler | None:
        """Return the engine of a player that comes from no run, so it can take part in one; None for any other."""
        return self.scripted(text) or self.exploiter(text) or self.remote(text)

    def remote(self, text: str) -> OpenAIApi | None:
        """Return the engine of ``openai:...``, None for any other player. Raises UsageError if it cannot be asked."""
        if text.startswith("openai:") and text not in self._remote:
            self._remote[text] = open_remote(text)
        return self._remote.get(text)

    def scripted(self, text: str) -> Sampler | None:
        """Return the engine of a player in ``SCRIPTED``, None for any other. Raises UsageError for a bad argument."""
        if text not in self._scripted and (engine := _scripted(text)):
            self._scripted[text] = engine
        return self._scripted.get(text)

    def exploiter(self, text: str) -> Network | None:
        """Return the engine of ``exploiter:DIR``, None for any other player. Raises UsageError for an unfit folder."""
        if not text.startswith("exploiter:"):
            return None
        if text not in self._exploiters:
            from arena.samplers.network import Network, load_facts, load_network  # torch is slow to import
            from league.exploiters import reference_of
            from league.players import resolve

            folder = Path(text.removeprefix("exploiter:")).expanduser()
            facts = load_facts(folder)
            spec, limited = make_game(facts.game).spec, facts.budget.limited
            self._exploiters[text] = Network(
                load_network(folder, facts),
                facts.game,
                seats=facts.seats,
                budget=facts.budget,
                reference=reference_of(resolve(facts.reference, spec, self)) if limited else None,
                greedy=facts.greedy,
            )
        return self._exploiters[text]

    def torch(self, device: str, dtype: str) -> TorchLM:
        """Return the engine of language models on a torch device, with weights of a type."""
        if (device, dtype) not in self._torch:
            from arena.samplers.torch_lm import TorchLM  # torch is slow to import

            self._torch[device, dtype] = TorchLM(device=device, dtype=dtype)
        return self._torch[device, dtype]

    def of_run(self, run: Run, snapshot: Snapshot) -> ModelEngine:
        """Return the engine that a run's configuration names; runs share one of this process's, and no vLLM."""
        config = run.config
        if config.engine.kind == "torch":
            return self.torch(config.model.device, config.model.dtype)
        if run.path not in self._vllm:
            from arena.wording import Wording
            from league.bases import verified_base
            from league.engines import check_engine, make_engine

            check_engine(config, {one.policy for one in run.population.all()})
            adapters = config.policy(snapshot.policy).kind == "lora"
            wording = Wording.read(verified_base(config, run.path) if adapters else snapshot.path)
            self._vllm[run.path] = make_engine(config, run.path, wording, adapters=adapters)
        return self._vllm[run.path]

    def adapters(self, run: Run) -> Adapters:
        """Return the base of a run's adapters, which all its snapshots share. Raises UsageError if it has changed."""
        if run.path not in self._adapters:
            from arena.adapters import Adapters
            from league.bases import base_source, load_base

            self._adapters[run.path] = Adapters(load_base(run.config, run.path), base_source(run.config))
        return self._adapters[run.path]
