"""Whether pocket models learn to talk: one game of each motive, with templated words, against scripted players.

    python -m benchmarks.studies.talk talk [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every run trains one policy by self-play from nothing. Its figures are mean returns against the game's script, in every
seating, on held-out deals: in a game of common interest the script has the other seats of the team. "Untrained" is the
run's first snapshot, "trained" its last, and "the script itself" what the script earns in their place. With --keep,
an interrupted measurement continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from league import open_run

MATCHES = 128  # in an iteration
HELD_OUT = 400
COMMON: dict[str, Any] = {
    "threads": 1,
    "episodes_kept": 0,
    "objective": {"entropy": 0.02, "kl_old": 0.3},
    "optimizer": {"learning_rate": 1e-3, "inner_steps": 2},
    "model": {"hidden_size": 64, "intermediate_size": 128, "vocabulary": 320},
    "cold_start": {"steps": 20, "matches": 60},
    "evaluation": {"exact": False, "matches": 0, "anchors": []},
    "matchmaking": {"self_play": 1.0, "fictitious": 0.0},
}


class Study(NamedTuple):
    """A game, its motive in a word, and whom its players are measured against."""

    game: str
    motive: str
    script: str
    iterations: int


STUDIES = (
    Study("debate(boxes=3,judge=0,form=1)", "zero-sum", "scripted:good", 30),
    Study("simple_negotiation(goods=2,stock=1,most=2,turns=3,form=1)", "general-sum", "scripted:good", 30),
    Study("relay_arithmetic", "common interest", "scripted:optimal", 30),
)
CONDITIONS = ("untrained", "trained", "the script itself")


class Run(NamedTuple):
    """One run of one study."""

    study: Study
    seed: int


def settings_of(run: Run) -> dict[str, Any]:
    """Return the settings of a run."""
    from games.registry import make_game
    from roles.cards import load_roles

    study = run.study
    return COMMON | {
        "seed": run.seed,
        "iterations": study.iterations,
        "snapshot_every": study.iterations,
        "games": {study.game: {"matches": MATCHES}},
        "roles": {"policy": {f"{study.game}/{role.name}": "main" for role in load_roles(make_game(study.game).spec)}},
    }


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's mean returns by condition."""
    config = open_run(run_dir).config
    [run] = [Run(study, config.seed) for study in STUDIES if study.game in config.games]
    players = (f"{run_dir}@main-000000", str(run_dir), run.study.script)
    returns = {name: held_out(player, run) for name, player in zip(CONDITIONS, players, strict=True)}
    return {"figure": returns["trained"], "returns": returns}


def held_out(player: str, run: Run) -> float:
    """Return a player's mean return against the study's script in matches that it did not train on."""
    from games.common.seeds import derive_seed
    from games.registry import make_game
    from league.evaluation.head_to_head import compare
    from league.players.engines import Engines
    from league.players.player import resolve

    spec, engines = make_game(run.study.game).spec, Engines()
    players = (resolve(player, spec, engines), resolve(run.study.script, spec, engines))
    return compare(players, HELD_OUT, derive_seed(run.seed, "held out")).returns[0].mean


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return a table for each game."""
    configs = {study.game: load_settings(tomli_w.dumps(settings_of(Run(study, 0)))) for study in STUDIES}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    tables = []
    for study in STUDIES:
        found = [figures[study.game, seed]["returns"] for seed in seeds]
        conditions = [{"name": name, "runs": [{"figure": returns[name]} for returns in found]} for name in CONDITIONS]
        tables.append(
            {
                "game": f"{study.game}, {study.motive}, {study.iterations} iterations of {MATCHES} matches",
                "figure": f"mean return against {study.script}",
                "less_is_better": False,
                "columns": {},
                "conditions": conditions,
            }
        )
    return {"study": "talk", "seeds_used": list(seeds), "tables": tables}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["talk"], measure_study, table_lines)


if __name__ == "__main__":
    main()
