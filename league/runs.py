"""A run directory, read by everything that looks at what was trained. Nothing here changes it."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from games.errors import UsageError, unknown_name
from league.config import RunConfig
from league.meta_solvers import BY_AGE, META_SOLVERS
from league.payoffs import PayoffTable
from league.population import Population, Snapshot
from league.ratings import Ratings
from league.settings import CONFIG_FILE, load

STATE_FOLDER = "state"  # of a run, where training keeps what it goes on from
RUNS = Path("runs")  # where `league train` puts runs, and where a run may be named without its folder


class Run:
    """What a run directory holds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def config(self) -> RunConfig:
        """The configuration, as it was resolved."""
        return load(str(self.path / CONFIG_FILE))

    @cached_property
    def population(self) -> Population:
        """The snapshots. Raises UsageError while there is none."""
        root = self.path / "population"
        population = Population(root) if root.is_dir() else ()
        if not population:
            raise UsageError(
                f"{self.path} has no snapshot yet. Wait for its first one, or let it train on: "
                f"league train --resume --run-dir {self.path}"
            )
        return population

    @cached_property
    def payoffs(self) -> PayoffTable:
        """The payoff table. Raises UsageError while there is none."""
        return PayoffTable.from_json(self._json("payoffs.json"))

    @cached_property
    def ratings(self) -> Ratings:
        """The ratings. Raises UsageError while there are none."""
        return Ratings.from_json(self._json("ratings.json"))

    def members(self, which: str, policy: str, game: str, seat: int) -> list[tuple[Snapshot, float]]:
        """Return the snapshots, with weights that sum to one, that play for a policy in a seat of a game.

        ``which`` is empty for the newest, "mixture", or a snapshot's id. Raises UsageError for a name
        that does not exist.
        """
        if which == "mixture":
            return self._mixture(policy, game, seat)
        if which:
            ids = [snapshot.id for snapshot in self.population.all()]
            if which not in ids:
                raise unknown_name(f"snapshot of {self.path}", which, [*ids, "mixture"])
            return [(self.population.get(which), 1.0)]
        return [(self.population.newest(policy), 1.0)]

    def _mixture(self, policy: str, game: str, seat: int) -> list[tuple[Snapshot, float]]:
        """Return the run's meta-strategy: as it was computed with the newest snapshot, or by age in other games."""
        weights = self._json("mixtures.json").get(game)
        if weights is not None:
            return [(self.population.get(one), weight) for one, weight in weights[seat].items() if weight > 0.0]
        rule, snapshots = self.config.evaluation.mixture, self.population.all(policy)
        snapshots = snapshots or [self.population.newest(policy)]
        if rule not in BY_AGE and len(snapshots) > 1:
            raise UsageError(
                f"{self.path} has no results among its snapshots in {game}, which its mixture, {rule}, is made of. "
                f"It has trained {', '.join(self.config.games)}."
            )
        by_age = META_SOLVERS[rule](np.zeros((len(snapshots), len(snapshots))))
        return [(one, float(weight)) for one, weight in zip(snapshots, by_age, strict=True)]

    def _json(self, name: str) -> Any:
        path = self.path / name
        if not path.is_file():
            raise UsageError(f"{self.path} has no {name} yet: it is written when the first snapshot is frozen.")
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UsageError(f"{path} is damaged ({error}). Restore it from a copy.") from error


def find_run(name: str) -> Path | None:
    """Return the directory of a run given by its path or by its name under ``runs/``; None if there is none.

    Raises UsageError for a folder that is not a run.
    """
    if not name:
        return None
    for path in (Path(name).expanduser(), RUNS / name):
        if (path / CONFIG_FILE).is_file():
            return path
    if Path(name).is_dir():
        raise UsageError(f"{name} is a folder, but not a run: it has no {CONFIG_FILE}. For a model write hf:{name}.")
    return None


def open_run(name: str) -> Run:
    """Return a run by path or name. Raises UsageError that offers the nearest runs."""
    path = find_run(name)
    if path is None:
        raise unknown_name("run", name, run_names(), "Runs are made by `league train`.")
    return Run(path)


def run_names() -> list[str]:
    """Return the runs under ``runs/``, by path."""
    return sorted(str(path.parent) for path in RUNS.glob(f"*/{CONFIG_FILE}"))
