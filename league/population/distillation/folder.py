"""A distilled model in its own folder, which is a run of one snapshot: a player and a base like any other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from arena.lm.finite import check_weights
from games.common.files import atomic_write, sync_folder, sync_tree
from league.config import RunConfig
from league.config.load import write_run_config
from league.population.distillation.distil import Distilled, GameResult, in_few_words
from league.population.models.base_model import BASE_FOLDER
from league.population.storage.population import Origin, Population, Snapshot
from league.population.storage.run_dir import Run, check_unused
from learners.update.policy import Policy

REPORT_FILE = "distilled.json"


def write_folder(folder: Path, run: Run, distilled: Distilled, source: str) -> list[Snapshot]:
    """Make a run of only the distilled snapshots, written atomically; return them.

    Raises UsageError for a folder that is not empty.
    """

    def fill(partial_folder: Path) -> list[Snapshot]:
        frozen = freeze(Population(partial_folder / "population"), distilled, source, f"{run.path.name}@")
        atomic_write(partial_folder / REPORT_FILE, json.dumps(to_json(source, frozen, distilled), indent=1))
        return frozen

    plain = run.config.distil.model_copy(update={"roles": {}})
    answering = run.config.model_copy(update={"roles": run.config.distilled_roles, "distil": plain})
    return write_run(folder, run, fill, answering)


def write_run(
    folder: Path, run: Run, fill: Callable[[Path], list[Snapshot]], config: RunConfig | None = None
) -> list[Snapshot]:
    """Make a run with another's configuration (or ``config``) and base, and the snapshots of ``fill``; return them.

    ``fill`` is given a folder of another name, which is renamed to ``folder`` when it is complete. Raises UsageError
    for a folder that is not empty.
    """
    check_unused(folder)
    partial_folder = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial_folder, ignore_errors=True)
    partial_folder.mkdir(parents=True)
    try:
        write_run_config(partial_folder, config or run.config)
        for base in run.path.glob(f"{BASE_FOLDER}*"):
            shutil.copytree(base, partial_folder / base.name)
        frozen = fill(partial_folder)
        sync_tree(partial_folder)
        if folder.is_dir():
            shutil.rmtree(folder)
        partial_folder.replace(folder)
    except BaseException:
        shutil.rmtree(partial_folder, ignore_errors=True)
        raise
    sync_folder(folder.parent)
    return [Population(folder / "population").get(snapshot.id) for snapshot in frozen]


def freeze(
    population: Population, distilled: Distilled, source: str, prefix: str = "", step: int | None = None
) -> list[Snapshot]:
    """Freeze the distilled policies; their parents are the members of the mixture, with a prefix such as RUN@."""
    how = f"distilled from {source}: {in_few_words(distilled.games)}"
    newest = max(taught.start.step for taught in distilled.taught.values()) if step is None else step
    frozen = []
    for name, taught in distilled.taught.items():
        parents = [f"{prefix}{identity}" for identity in taught.parents]
        save = partial(save_policy, taught.policy)
        frozen.append(population.add(name, newest, None, save, Origin.DISTILLED, parents, how))
    return frozen


def save_policy(policy: Policy, folder: Path) -> None:
    """Write a policy's weights into a snapshot's folder. Raises NotFinite for weights that are not finite."""
    policy.lm.save(folder)
    check_weights(policy.name, folder, live=True)


def to_json(source: str, snapshots: list[Snapshot], distilled: Distilled) -> dict[str, Any]:
    """Return the distilled policies and how near they are, as JSON data. Values that were not computed are null."""
    return {
        "source": source,
        "snapshots": {s.policy: {"id": s.id, "parents": list(s.parents), "how": s.how} for s in snapshots},
        "games": {result.game: _result_to_json(result) for result in distilled.games},
    }


def _result_to_json(result: GameResult) -> dict[str, Any]:
    worth = result.worth
    return {
        "exact": result.exact,
        "situations": result.situations,
        "kl_before": result.kl_before,
        "kl_after": result.kl_after,
        "measure": None if worth is None else worth.kind,
        "before": None if worth is None else worth.before,
        "target": None if worth is None else worth.target,
        "after": None if worth is None else worth.after,
    }
