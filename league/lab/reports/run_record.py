"""A run's folder as a report reads it, once: the run may be finished, stopped, or still in training.

Nothing is written there. Missing parts are reported as missing, and the rest is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from games.common.errors import DamagedFile, UsageError
from games.common.files import read_json
from games.outside.as_played import as_played, is_outside
from games.registry import make_game
from games.spec import GameSpec
from league.config import RunConfig
from league.config.load import load_run_config, run_roles, seat_roles
from league.lab.standings.standings import GameStandings, game_standings, left_out
from league.population.evaluation.policy_tables import PolicyTables, Profile, profiles
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.results.ratings import Ratings
from league.population.storage.population import Population, Snapshot
from league.population.storage.run_dir import STATE_FOLDER, Run, open_run
from league.theory.exact.exploitability import PolicyTable
from league.training.board.metrics_log import METRICS_FILE, read_metrics
from roles.role import Roles, bound_policies


class Series(NamedTuple):
    """A metric over a run."""

    iterations: tuple[int, ...]
    values: tuple[float, ...]  # as many


class Tabulated(NamedTuple):
    """A game's exact policy tables, of one freeze after another."""

    steps: list[int]  # iterations, ascending
    tables: list[PolicyTable]  # as many
    players: list[str]  # as many: snapshots, "A+B" where two share the seats


@dataclass(frozen=True)
class RunRecord:
    """A run, as far as it has progressed."""

    name: str  # as the user wrote it
    path: Path
    config: RunConfig
    done: int  # iterations
    metrics: dict[str, Series]
    snapshots: list[Snapshot]  # by step
    specs: dict[str, GameSpec]  # of the games whose facts are known
    roles: Roles
    standings: dict[str, GameStandings]  # of the games in which any two players met
    tables: dict[str, Tabulated]  # of the games that were tabulated
    mixtures: dict[str, list[dict[str, float]]]  # RUN@mixture, by game, seat and snapshot

    @property
    def finished(self) -> bool:
        """Whether all configured iterations are done."""
        return self.done >= self.config.iterations

    def last(self, name: str) -> float | None:
        """Return the latest value of a metric; None if it was never measured."""
        series = self.metrics.get(name)
        return series.values[-1] if series else None


def read_run(name: str) -> RunRecord:
    """Read a run. Raises UsageError for a folder that is not a run, or has no measurements yet."""
    run = open_run(name)
    config = load_run_config(run.path, makes=False)
    metrics, done = _metrics(run.path)
    if not metrics:
        raise UsageError(f"{run.path} has nothing to report yet: reports need a first snapshot.")
    specs = _specs(run, config)
    here = {game: settings for game, settings in config.games.items() if not is_outside(game)}
    roles = run_roles(config.model_copy(update={"games": here}))
    roles |= {game: seat_roles(config.roles, spec) for game, spec in specs.items() if game not in here}
    snapshots = Population(run.path / "population").all() if (run.path / "population").is_dir() else []
    return RunRecord(
        name=name,
        path=run.path,
        config=config,
        done=done,
        metrics=metrics,
        snapshots=snapshots,
        specs=specs,
        roles=roles,
        standings=_standings(run, config, specs, snapshots),
        tables={
            game: tabulated
            for game, spec in specs.items()
            if not is_outside(game) and (tabulated := _tables(run, config, spec, roles, snapshots)).tables
        },
        mixtures=_json(run.path / "mixtures.json"),
    )


def _metrics(path: Path) -> tuple[dict[str, Series], int]:
    """Return every metric, and the number of iterations done."""
    points: dict[str, tuple[list[int], list[float]]] = {}
    iteration = 0
    try:
        for line in read_metrics(path):
            iteration = int(line.pop("iteration"))
            for name, value in line.items():
                iterations, values = points.setdefault(name, ([], []))
                iterations.append(iteration)
                values.append(float(value))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path / METRICS_FILE} is damaged after iteration {iteration} ({error}). Restore it from a copy."
        ) from error
    return {name: Series(tuple(iterations), tuple(values)) for name, (iterations, values) in points.items()}, iteration


def _specs(run: Run, config: RunConfig) -> dict[str, GameSpec]:
    """Return the facts about a run's games; for another library's games they come from kept matches, if any."""
    outside, specs = [game for game in config.games if is_outside(game)], dict[str, GameSpec]()
    if outside and (run.path / STORE_FILE).is_file():
        with MatchStore(run.path / STORE_FILE, reads=True) as store:
            returns = {game: [match.returns for match in store.matches(game)] for game in outside}
        specs = {game: as_played(game, kept_returns) for game, kept_returns in returns.items() if kept_returns}
    return {
        game: specs[game] if game in specs else make_game(game).spec
        for game in config.games
        if game in specs or game not in outside
    }


def _standings(
    run: Run, config: RunConfig, specs: Mapping[str, GameSpec], snapshots: list[Snapshot]
) -> dict[str, GameStandings]:
    """Return the standings of the games that have them."""
    store_file = run.path / STORE_FILE
    if not store_file.is_file():
        return {}
    out = {game: left_out(config, snapshots, spec) for game, spec in specs.items()}
    ratings = run.ratings if (run.path / "ratings.json").is_file() else Ratings()
    with MatchStore(store_file, reads=True) as store:
        played = set(store.games())
        standings = {
            game: game_standings(store, spec, ratings=ratings, anchors=config.evaluation.anchors, live=out[game])
            for game, spec in specs.items()
            if game in played and spec.seats > 1
        }
    return {game: game_table for game, game_table in standings.items() if game_table.ranking}


def _tables(run: Run, config: RunConfig, spec: GameSpec, roles: Roles, snapshots: list[Snapshot]) -> Tabulated:
    """Return the stored tables of the main policies' line-ups, in the order of their freezes."""
    stored = PolicyTables(run.path / STATE_FOLDER / "tables", config.evaluation.exact_limit)
    main = set(bound_policies(roles))
    steps = {snapshot.id: snapshot.step for snapshot in snapshots}
    by_profile: dict[Profile, PolicyTable] = {}
    for profile in profiles([snapshot for snapshot in snapshots if snapshot.policy in main], roles[spec.name]):
        with suppress(DamagedFile):  # as standings do: the run computes it again
            if (table := stored.stored(profile, spec)) is not None:
                by_profile[profile] = table
    players = ["+".join(dict.fromkeys(profile)) for profile in by_profile]
    newest = [max(steps[player] for player in profile) for profile in by_profile]
    return Tabulated(newest, list(by_profile.values()), players)


def _json(path: Path) -> Any:
    """Return the content of a file that a training run replaces as a whole; empty if there is none yet."""
    if not path.is_file():
        return {}
    try:
        return read_json(path)
    except ValueError as error:
        raise UsageError(f"{path} is damaged ({error}). Restore it from a copy.") from error
