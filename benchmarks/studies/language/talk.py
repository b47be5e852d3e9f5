"""Whether pocket models learn to talk: one game of each motive, with templated words, against scripted players.

    python -m benchmarks.studies.language.talk talk [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every run trains one policy from nothing, by self-play or beside the game's script, which is then given the other roles.
Its figures are mean returns beside that script in the roles that learned, on held-out deals. "Untrained" is the run's
first snapshot, "trained" its last, and "the script itself" what the script earns in their place. With --keep, an
interrupted measurement continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from league import open_run

HELD_OUT = 600
COMMON: dict[str, Any] = {
    "threads": 1,
    "episodes_kept": 0,
    "credit": {"scale_returns": False},  # gains of a small negotiation are far smaller than its range
    "objective": {"name": "ppo", "clip_low": 0.9, "clip_high": 9.0, "kl_old": 0.5, "entropy": 0.02},
    "optimizer": {"learning_rate": 1e-3, "inner_steps": 4, "minibatch_prompts": 128},
    "model": {"hidden_size": 64, "intermediate_size": 128, "vocabulary": 320},
    "cold_start": {"steps": 20, "matches": 60},
    "evaluation": {"exact": False, "matches": 0, "anchors": []},
    "matchmaking": {"self_play": 1.0, "fictitious": 0.0},
}


class Study(NamedTuple):
    """A game, its motive in a word, whom its players are measured against, and how long they learn."""

    game: str
    motive: str
    script: str
    iterations: int
    matches: int  # in an iteration
    given: tuple[str, ...] = ()  # roles that the script plays in training


STUDIES = (
    Study("debate(boxes=3,judge=0,form=1)", "zero-sum", "scripted:good", 30, 256),
    Study(
        "simple_negotiation(goods=2,stock=1,most=3,turns=2,form=1)",
        "general-sum",
        "scripted:good",
        20,
        128,
        ("second",),
    ),
    Study("relay_arithmetic", "common interest", "scripted:optimal", 20, 128, ("generator", "verifier")),
)
CONDITIONS = ("untrained", "trained", "the script itself")


class Run(NamedTuple):
    """One run of one study."""

    study: Study
    seed: int


def settings_of(run: Run) -> dict[str, Any]:
    """Return the settings of a run."""
    study = run.study
    return COMMON | {
        "seed": run.seed,
        "iterations": study.iterations,
        "snapshot_every": study.iterations,
        "games": {study.game: {"matches": study.matches}},
        "roles": {
            "policy": {f"{study.game}/{role}": "main" for role in learners(study)},
            "player": {f"{study.game}/{role}": study.script for role in study.given},
        },
    }


def learners(study: Study) -> list[str]:
    """Return the names of the roles that learn."""
    from games.registry import make_game
    from roles.cards import load_roles

    return [role.name for role in load_roles(make_game(study.game).spec) if role.name not in study.given]


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's mean returns by condition."""
    config = open_run(run_dir).config
    [run] = [Run(study, config.seed) for study in STUDIES if study.game in config.games]
    players = (f"{run_dir}@main-000000", str(run_dir), run.study.script)
    returns = {name: held_out(player, run) for name, player in zip(CONDITIONS, players, strict=True)}
    return {"figure": returns["trained"], "returns": returns}


def held_out(player: str, run: Run) -> float:
    """Return a player's mean return beside the study's script, in the roles that learned and on deals of its own."""
    from games.common.seeds import derive_seed
    from games.registry import make_game
    from league.population.evaluation.head_to_head import compare
    from league.population.players.engines import Engines
    from league.population.players.player import resolve

    spec, engines = make_game(run.study.game).spec, Engines()
    players = (resolve(player, spec, engines), resolve(run.study.script, spec, engines))
    by_role = compare(players, HELD_OUT, derive_seed(run.seed, "held out")).by_role
    return fmean([by_role[role].returns.mean for role in learners(run.study)])


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
                "game": f"{study.game}, {study.motive}, {study.iterations} iterations of {study.matches} matches",
                "figure": f"mean return beside {study.script}",
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
