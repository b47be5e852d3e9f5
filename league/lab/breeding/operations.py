"""Operations of breeding rules on stored runs: reading their weights, distilling their mixtures, playing matches."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from arena.records import Episode
from arena.replays import save_episodes
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config import RunConfig
from league.config.load import run_roles
from league.lab.breeding.slot import Weights
from league.population.distillation.distil import MIXTURE, distil
from league.population.evaluation.head_to_head import compare
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.storage.population import Snapshot
from league.population.storage.run_dir import Run
from roles.role import bound_policies

PEFT_PREFIX = "base_model.model."  # of an adapter's tensors in files


class StoredRuns:
    """Operations on the runs of one population; the files that they make are kept in ``folder``."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self.policies = [name for name in bound_policies(run_roles(config)) if not config.policy(name).frozen]
        self._distilled: dict[Path, dict[str, Weights]] = {}

    def weights(self, run: Path) -> dict[str, Weights]:
        """Return the newest weights of each policy."""
        population = Run(run).population
        return {name: _tensors(population.verify(population.newest(name))) for name in self.policies}

    def root(self, run: Path) -> dict[str, Weights]:
        """Return each policy's weights before training."""
        population = Run(run).population
        return {name: _tensors(population.verify(population.all(name)[0])) for name in self.policies}

    def distilled(self, run: Path) -> dict[str, Weights]:
        """Return each policy's weights after distilling the run's mixture into it."""
        if run not in self._distilled:
            with Engines() as engines:
                taught = distil(Run(run), MIXTURE, engines, self._config.seed).taught
            self._distilled = {
                run: {
                    name: {n: p.detach() for n, p in taught[name].policy.parameters.items()} for name in self.policies
                }
            }
        return self._distilled[run]

    def played(self, run: Path) -> Path:
        """Return a file of matches that a run's newest snapshots play with themselves in all games."""
        path = self._folder / f"{run.parent.name}-{run.name}.jsonl"
        if not path.is_file():
            episodes: list[Episode] = []
            with Engines() as engines:
                for game in self._config.games:
                    player = resolve(str(run), make_game(game).spec, engines)
                    seed = derive_seed(self._config.seed, "shown", game)
                    episodes += compare((player, player), self._config.descent.matches, seed).episodes
            save_episodes(path, episodes)
        return path


def _tensors(snapshot: Snapshot) -> dict[str, Tensor]:
    """Return a snapshot's weights by parameter name."""
    tensors: dict[str, Tensor] = {}
    for path in sorted(snapshot.path.glob("*.safetensors")):
        tensors |= load_file(path)
    return {name.removeprefix(PEFT_PREFIX): tensor for name, tensor in tensors.items()}
