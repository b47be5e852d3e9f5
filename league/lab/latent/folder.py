"""The result of LSPO in its own folder, which is a run of its snapshots: a player and a base like any other."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from games.common.files import atomic_write
from league.lab.latent.lspo import LatentRound, Lspo, in_few_words
from league.population.distillation.folder import save_policy, write_run
from league.population.storage.population import Origin, Population, Snapshot
from league.population.storage.run_dir import Run

REPORT_FILE = "lspo.json"


def write_folder(folder: Path, run: Run, result: Lspo, source: str) -> list[Snapshot]:
    """Make a run of only the taught snapshots, written atomically; return them.

    Raises UsageError for a folder that is not empty.
    """

    def fill(partial_folder: Path) -> list[Snapshot]:
        population, frozen = Population(partial_folder / "population"), []
        how = f"LSPO from {source}: {in_few_words(result)}"
        newest = max(taught.start.step for taught in result.taught.values())
        for name, taught in result.taught.items():
            parents = [f"{run.path.name}@{identity}" for identity in taught.parents]
            save = partial(save_policy, taught.policy)
            frozen.append(population.add(name, newest, None, save, Origin.DISTILLED, parents, how))
        atomic_write(partial_folder / REPORT_FILE, json.dumps(to_json(source, frozen, result), indent=1))
        return frozen

    return write_run(folder, run, fill)


def to_json(source: str, snapshots: list[Snapshot], result: Lspo) -> dict[str, Any]:
    """Return the rounds and their values as JSON data. Values that were not computed are null."""
    before, after = (None, None) if result.exact is None else result.exact
    return {
        "source": source,
        "game": result.game,
        "snapshots": {s.policy: {"id": s.id, "parents": list(s.parents), "how": s.how} for s in snapshots},
        "latent_exploitability": {"before": result.rounds[0].before, "after": result.rounds[-1].after},
        "exploitability": {"before": before, "after": after},
        "rounds": [_round_to_json(latent_round) for latent_round in result.rounds],
    }


def _round_to_json(latent_round: LatentRound) -> dict[str, Any]:
    return latent_round._asdict() | {
        "clusters": [c._asdict() | {"utterances": list(c.utterances)} for c in latent_round.clusters]
    }
