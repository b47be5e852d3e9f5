"""A run directory, for the commands that read a run. Nothing here changes it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from games.common import plugins
from games.common.errors import DamagedFile, UsageError, unknown_name
from games.common.files import is_leftover, read_json
from league.config import CONFIG_FILE

if TYPE_CHECKING:  # slow to import, and not every folder that a command is given is a run's
    from league.config import RunConfig
    from league.population.results.ratings import Ratings
    from league.population.storage.population import Population, Snapshot

STATE_FOLDER = "state"  # of a run: its checkpoint
SET_ASIDE = "set_aside"  # folder of a run: the files that rewinding replaced
DISTILLED = "distilled"  # of a run: the population of its distilled snapshots, and RUN@distilled
RUNS = Path("runs")  # the folder of new runs, which a run's name may omit
SWEEP_FILE = "sweep.json"  # in the folder of a sweep, whose runs are folders beside it
PLAN_FILE = "tournament.json"  # in the folder of a tournament
EXPLOITER_FILE = "exploiter.json"  # in the folder of a best response (arena.samplers.policy_net.FACTS_FILE)


class Run:
    """The contents of a run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def config(self) -> RunConfig:
        """The resolved configuration."""
        from league.config.load import load_run_config

        return load_run_config(self.path)

    @cached_property
    def population(self) -> Population:
        """The snapshots. Raises UsageError if there is none yet."""
        from league.population.storage.population import Population

        root = self.path / "population"
        population = Population(root) if root.is_dir() else ()
        if not population:
            raise UsageError(
                f"{self.path} has no snapshot yet. Wait for its first one, or let it continue training: "
                f"league train --resume --run-dir {shlex.quote(str(self.path))}{plugins.as_options()}"
            )
        return population

    @cached_property
    def distilled(self) -> Population:
        """The distilled snapshots. Raises UsageError where there is none."""
        from league.population.storage.population import Population

        root = self.path / DISTILLED
        population = Population(root) if root.is_dir() else ()
        if not population:
            raise UsageError(
                f"{self.path} has no distilled snapshot: distil_every was 0, or none was due yet. Make one: "
                f"league lab distil {self.path}@mixture -o {self.path}-distilled"
            )
        return population

    @cached_property
    def ratings(self) -> Ratings:
        """The ratings. Raises UsageError while there are none."""
        from league.population.results.ratings import Ratings

        with self._read("ratings.json") as data:
            return Ratings.from_json(data)

    @cached_property
    def mixtures(self) -> dict[str, list[dict[str, float]]]:
        """The weights of snapshots in the mixture by game and seat. Raises UsageError while there are none."""
        with self._read("mixtures.json") as data:
            return _mixtures(data)

    def members(self, which: str, policy: str, game: str, seat: int) -> list[tuple[Snapshot, float]]:
        """Return a policy's snapshots, with weights that sum to one, that play in a seat of a game.

        ``which`` is "" for the newest, "mixture", "distilled" for the newest distilled one, or a snapshot's id. Raises
        UsageError for a name that does not exist.
        """
        if which == "mixture":
            return self._mixture(policy, game, seat)
        if which == DISTILLED:
            return [(self.distilled.newest(policy), 1.0)]
        if which:
            ids = [snapshot.id for snapshot in self.population.all()]
            if which not in ids:
                raise unknown_name(f"snapshot of {self.path}", which, [*ids, "mixture", DISTILLED])
            return [(self.population.get(which), 1.0)]
        return [(self.population.newest(policy), 1.0)]

    def _mixture(self, policy: str, game: str, seat: int) -> list[tuple[Snapshot, float]]:
        """Return the run's meta-strategy: computed with the newest snapshot, or by age in games without one."""
        import numpy as np

        from league.theory.meta_solvers import META_SOLVERS

        with self._read("mixtures.json") as data:
            if (weights := _mixtures(data).get(game)) is not None:
                drawn = [(identity, weight) for identity, weight in weights[seat].items() if weight > 0.0]
                return [(self.population.get(identity), weight) for identity, weight in drawn]
        rule, snapshots = self.config.evaluation.mixture, self.population.all(policy)
        snapshots = snapshots or [self.population.newest(policy)]
        solver = META_SOLVERS[rule]
        if not solver.by_age and len(snapshots) > 1:
            raise UsageError(
                f"{self.path} has no results of its snapshots in {game}, from which its mixture, {rule}, is computed. "
                f"It has trained {', '.join(self.config.games)}."
            )
        by_age = solver.make(np.zeros((len(snapshots), len(snapshots))))
        return [(snapshot, float(weight)) for snapshot, weight in zip(snapshots, by_age, strict=True)]

    @contextmanager
    def _read(self, name: str) -> Iterator[Any]:
        """Yield the data of a published file. Raises UsageError where there is none, and DamagedFile within."""
        path = self.path / name
        if not path.exists():
            raise UsageError(f"{self.path} has no {name} yet: it is written when the first snapshot is frozen.")
        remedy = f"Delete it and write it again: league train --resume --run-dir {shlex.quote(str(self.path))}"
        remedy += plugins.as_options()
        try:
            yield read_json(path)
        except UsageError:
            raise
        except OSError as error:
            raise DamagedFile(path, f"it cannot be read: {error.strerror}", remedy) from error
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
            raise DamagedFile(path, f"{type(error).__name__}: {error}", remedy) from error


def _mixtures(data: Any) -> dict[str, list[dict[str, float]]]:
    """Return the weights of snapshots by game and seat. Raises ValueError, TypeError or AttributeError for others."""
    return {
        game: [{identity: float(weight) for identity, weight in seat.items()} for seat in seats]
        for game, seats in data.items()
    }


def check_unused(run_dir: Path) -> None:
    """Raise UsageError if a new run cannot begin in a folder because it is not empty."""
    from league.population.storage.lock import LOCK_FILE

    if not run_dir.is_dir():
        return
    present = [path.name for path in run_dir.iterdir() if path.name != LOCK_FILE and not is_leftover(path)]
    if present:
        raise UsageError(
            f"{run_dir} is not empty (it holds {', '.join(sorted(present)[:3])}). Choose another --run-dir, or "
            f"continue that run: league train --resume --run-dir {shlex.quote(str(run_dir))}{plugins.as_options()}"
        )


def find_run(name: str) -> Path | None:
    """Return the directory of a run by its path, or by its name under ``runs/``; None if there is none.

    Raises UsageError for a folder that is not a run.
    """
    if not name:
        return None
    for path in (Path(name).expanduser(), RUNS / name):
        if (path / CONFIG_FILE).is_file():
            return path
    if Path(name).is_dir():
        raise UsageError(f"{name} is a folder, but not a run: it has no {CONFIG_FILE}. For a model, write hf:{name}.")
    return None


def open_run(name: str) -> Run:
    """Return a run by path or name. Raises UsageError that offers the nearest runs."""
    path = find_run(name)
    if path is None:
        raise unknown_name("run", name, run_names(), "`league train` makes runs.")
    return Run(path)


def is_sweep(name: str) -> bool:
    """Return whether a name is the folder of a sweep."""
    return (Path(name).expanduser() / SWEEP_FILE).is_file()


def runs_in(name: str) -> list[Run]:
    """Return the runs of a sweep in their order, by its folder, or a single run as ``open_run`` does.

    Raises UsageError that offers the nearest runs, and for a sweep none of whose runs has started.
    """
    if not is_sweep(name):
        return [open_run(name)]
    folder = Path(name).expanduser()
    try:
        planned = [folder / run["folder"] for run in read_json(folder / SWEEP_FILE)["runs"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(folder / SWEEP_FILE, str(error), "Restore it from a copy.") from error
    begun = [Run(path) for path in planned if (path / CONFIG_FILE).is_file()]
    if not begun:
        raise UsageError(
            f"No run of the sweep {name} has started yet: league sweep --resume --run-dir {shlex.quote(name)}"
            f"{plugins.as_options()}"
        )
    return begun


def load_plugins_of(names: Iterable[str]) -> None:
    """Load the plugins of runs, named as players are (RUN@SNAPSHOT), tournaments and best responses.

    Other names are skipped, except those within ``bayes:``. Raises UsageError for a plugin that is missing, that the
    user did not choose, or that is in one of these folders.
    """
    folders = folders_of(names)
    for folder in folders:
        if (folder / CONFIG_FILE).is_file():
            from league.config.load import plugins_in

            plugins.require(plugins_in(folder), folders)
        for name in (PLAN_FILE, EXPLOITER_FILE):
            plugins.require(_plugins_kept_in(folder / name), folders)


def folders_of(names: Iterable[str]) -> list[Path]:
    """Return the folders that names of players refer to; other names have none."""
    named = [part.removeprefix("best_response:").partition("@")[0] for text in names for part in _parts(text)]
    places = [path for name in named if name for path in (Path(name).expanduser(), RUNS / name)]
    return [path for path in dict.fromkeys(places) if path.is_dir()]


def _parts(player: str) -> list[str]:
    """Return the players that ``bayes:PLAYER,PLAYER`` names, or the single player that is named."""
    return player.removeprefix("bayes:").split(",") if player.startswith("bayes:") else [player]


def _plugins_kept_in(path: Path) -> list[str]:
    """Return the plugins that a tournament's or best response's file names; its other mistakes are reported later."""
    try:
        listed = read_json(path).get("plugins", [])
    except (OSError, ValueError, AttributeError):
        return []
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def run_names() -> list[str]:
    """Return the paths of the runs under ``runs/``."""
    return sorted(str(path.parent) for path in RUNS.glob(f"[!.]*/{CONFIG_FILE}"))
