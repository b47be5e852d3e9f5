"""Whether pocket models learn to talk: one game of each motive, with templated words, against scripted players.

    python -m benchmarks.studies.talk talk [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every run trains one policy by self-play from nothing. Its figures are mean returns against the game's script, in every
seating, on held-out deals: in a game of common interest the script has the other seats of the team. "Untrained" is the
run's first snapshot, "trained" its last, and "the script itself" what the script earns in their place. With --keep,
finished runs are remembered.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.studies.runs import Result, describe_run, measure_runs, run_study, table_lines

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

    @property
    def key(self) -> str:
        """A string that differs between any two runs of any studies."""
        return json.dumps(["talk", COMMON, MATCHES, HELD_OUT, *self])


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


def measure(run: Run) -> dict[str, Any]:
    """Train in a temporary folder; return the mean returns by condition, and how long it took."""
    import tomli_w

    from league.config import load as settings
    from league.run.session import train

    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="league-") as temporary, contextlib.redirect_stderr(io.StringIO()):
        toml, run_dir = Path(temporary, "config.toml"), Path(temporary, "run")
        toml.write_text(tomli_w.dumps(settings_of(run)), encoding="utf-8")
        train(settings.load(str(toml), []), run_dir)
        players = (f"{run_dir}@main-000000", str(run_dir), run.study.script)
        returns = {name: held_out(player, run) for name, player in zip(CONDITIONS, players, strict=True)}
    return {"figure": returns["trained"], "returns": returns, "seconds": time.perf_counter() - started}


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
    runs = [Run(study, seed) for seed in seeds for study in STUDIES]
    figures = measure_runs(runs, measure, keep / "talk.jsonl", workers, _describe)
    tables = []
    for study in STUDIES:
        found = [figures[Run(study, seed).key]["returns"] for seed in seeds]
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


def _describe(run: Run, figures: dict[str, float]) -> str:
    return describe_run(run.study.game, run.seed, figures)


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["talk"], measure_study, table_lines)


if __name__ == "__main__":
    main()
