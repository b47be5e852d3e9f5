"""A run on disk, for Python: its metrics, standings, snapshots, prompts and kept matches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from arena.records import Episode
from arena.replays import load_episodes
from games.common.errors import UsageError
from games.spec import Game
from league.config import RunConfig
from league.config.load import seat_roles
from league.population.storage.population import Snapshot
from league.population.storage.run_dir import Run
from league.population.storage.run_dir import open_run as find
from league.population.storage.sampled_matches import sample_files
from league.training.board.metrics_log import read_metrics
from roles.chat_text import Message
from roles.prompts import position_messages

if TYPE_CHECKING:
    import pandas
    import torch

    from league.cli.measuring.standings import StandingsReport
    from league.lab.standings.standings import Standing


class TrainingRun:
    """A run's folder. Nothing here changes it, and every call reads its present state.

    ``str(run)`` names it as a player: f"{run}@mixture", f"{run}@main-000120".
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"TrainingRun({str(self.path)!r})"

    @property
    def config(self) -> RunConfig:
        """The resolved configuration."""
        return Run(self.path).config

    def iterations(self) -> list[dict[str, float]]:
        """Return the metrics of each iteration by name, with the key "iteration"; the oldest first."""
        return list(read_metrics(self.path))

    def metrics(self) -> pandas.DataFrame:
        """Return the metrics as a frame: a row for each iteration, which is the index, a column for each metric.

        Metrics that were not measured in an iteration are NaN. Raises UsageError if pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            if error.name != "pandas":
                raise
            raise UsageError(
                "metrics() returns a pandas frame, and pandas is not installed: pip install 'llm-league[pandas]'. "
                "iterations() returns the same as dictionaries."
            ) from None
        return pandas.DataFrame(self.iterations()).set_index("iteration")

    def standings(self, game: str | None = None) -> StandingsReport:
        """Return the standings and measurements of one game or of all, by game in ``.games``.

        Raises UsageError for a game that the run does not have.
        """
        from league.cli.measuring.standings import load_report

        return load_report(Run(self.path), game)

    def ranking(self, game: str) -> list[Standing]:
        """Return the ranking of a game's players, the best first; empty if no match is stored.

        Raises UsageError for a game that the run does not have.
        """
        [report] = self.standings(game).games.values()
        return [] if report.standings is None else report.standings.ranking

    def snapshots(self, policy: str | None = None) -> list[Snapshot]:
        """Return the snapshots of one policy or of all, the oldest first; in ``.path`` is a model or an adapter."""
        return Run(self.path).population.all(policy)

    def weights(self, snapshot: str) -> Mapping[str, torch.Tensor]:
        """Return the tensors of a snapshot by name, only the adapter's if it is one, after a check of its hashes.

        Raises UsageError for an unknown snapshot, and for one whose files have changed.
        """
        from safetensors.torch import load_file

        population = Run(self.path).population
        folder = population.verify(population.get(snapshot)).path
        return {
            name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()
        }

    def prompt(self, position: Game) -> list[Message]:
        """Return the chat that requests a reply of the seat to act in a position, as the run's roles word it.

        Raises UsageError for a match that is over.
        """
        seat = position.to_act()
        if seat is None:
            raise UsageError(f"This match of {position.spec.name} is over, so nobody is asked. Reset it.")
        role = seat_roles(self.config.roles, position.spec)[seat]
        return position_messages(role, position)

    def episodes(self) -> list[Episode]:
        """Return the matches that were kept to be read, the oldest first."""
        return [episode for path in sample_files(self.path) for episode in load_episodes(path)]


def open_run(name: str | Path) -> TrainingRun:
    """Return a run by its folder, or by its name under ``runs/``. Raises UsageError that offers the nearest runs."""
    return TrainingRun(find(str(name)).path)
