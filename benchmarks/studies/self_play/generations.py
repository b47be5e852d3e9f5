"""Three generations on eight small games, beside one lifetime of as many matches, as XLand (arXiv 2107.12808) has them.

    python -m benchmarks.studies.self_play.generations generations [--seeds 0 1 2 3 4] [--keep DIR] [--json]

A generation is a population that is bred (population-based training, two steps of it), and is worth what its best
member is; the next one begins from its members' distilled mixtures. The lifetime is one run from the same weights.
Games and models, the rule of which games are trained and the figure are those of the study `curriculum`. All matches
count, those too that judge games, that compare members, and that a distilled model imitates: the lifetime trains with
as many more. With --keep, an interrupted measurement continues.

    python -m benchmarks.studies.self_play.generations --draw

draws the stored result as benchmarks/results/generations.png.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.report.page import RESULTS
from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from benchmarks.studies.self_play.curriculum import SPACE, shares, summary
from games.registry import make_game
from league import RunConfig, open_run
from league.lab.breeding.breeding import BREED_FILE, breed, budget_of
from league.population.distillation.distil import HELD_OUT
from league.theory.statistics import PERCENTILES
from league.training.snapshots.judged_games import most_matches

PICTURE = RESULTS / "generations.png"
GENERATIONS, STEPS = 3, 2  # of breeding in a generation
BREEDING = (
    "iterations=30",  # of a member
    "snapshot_every=5",
    "curriculum.matches=8",
    f"descent.generations={GENERATIONS * STEPS}",
    f"descent.every={STEPS}",
    "descent.rule=mutate",
    "descent.between=distil",
    "descent.members=2",
    "descent.factor=1.5",
    "descent.resample=0",
    "descent.mutate={'optimizer.learning_rate'=[3e-4,3e-3]}",
    "descent.matches=24",
    "distil.matches=64",
    "distil.steps=50",
)
BRED, ALONE = "three generations", "one lifetime"
LABELS = {BRED: "bred", ALONE: "alone"}  # in the picture


def bred_settings() -> RunConfig:
    """Return the settings of the generations."""
    return load_settings(SPACE, BREEDING)


def matches_of(config: RunConfig) -> int:
    """Return the most matches of breeding: in training, and to judge games, compare members and distil mixtures."""
    settings = config.descent
    pairs = settings.members * (settings.members - 1) // 2 * settings.generations + settings.generations - 1  # elites
    sampled = [game for game in config.games if make_game(game).spec.seats == 1]  # other games here have tables
    imitated = config.distil.matches + -(-config.distil.matches // HELD_OUT)
    distilled = settings.members * (GENERATIONS - 1) * len(sampled) * imitated
    return budget_of(config).matches + pairs * len(config.games) * settings.matches + distilled


def lifetime(config: RunConfig) -> RunConfig:
    """Return the settings of one run with as many matches as breeding has, to within an iteration."""
    iterations = config.iterations
    while most_matches(config.model_copy(update={"iterations": iterations + 1})) <= matches_of(config):
        iterations += 1
    return config.model_copy(update={"iterations": iterations})


def bred(config: RunConfig, folder: Path) -> list[dict[str, float]]:
    """Breed a population, or continue it; return shares by game: of each generation's best, and of the elite."""
    started = (folder / BREED_FILE).exists()
    history = breed(None if started else config, folder, lambda text: print(text, file=sys.stderr)).record()["history"]
    best = [row["ranking"][0] for row in history[STEPS - 1 :: STEPS]]
    runs = [folder / name for name in (*best, history[-1]["elite"]["run"])]
    return [shares(run, open_run(run).iterations()[-1], str(run), config.seed) for run in runs]


def measure_lifetime(run_dir: Path) -> dict[str, Any]:
    """Return a run's shares by game after each third of its iterations."""
    run = open_run(run_dir)
    lines = {line["iteration"]: line for line in run.iterations()}
    frozen = {snapshot.step: snapshot.id for snapshot in run.snapshots("main")}
    ends = [max(lines) * third / GENERATIONS for third in range(1, GENERATIONS + 1)]
    steps = [min(frozen, key=lambda step: abs(step - end)) for end in ends]
    after = [shares(run_dir, lines[step], f"{run_dir}@{frozen[step]}", run.config.seed) for step in steps]
    return {"after": after}


def row(shares_by_game: Sequence[dict[str, float]], matches: int) -> dict[str, Any]:
    """Return a run's figures by its shares after each generation, and those of its elite, if there is one."""
    after = list(shares_by_game[:GENERATIONS])
    thirds = [summary(worth) for worth in after]
    figures = {
        **thirds[-1],
        **{f"after_{number}": third["figure"] for number, third in enumerate(thirds[:-1], start=1)},
        "matches": matches,
        "after": after,
    }
    if elite := shares_by_game[GENERATIONS:]:
        figures["elite"] = summary(elite[0])["figure"]
    return figures


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the tables."""
    config = bred_settings()
    alone = measure_runs({ALONE: lifetime(config)}, seeds, measure_lifetime, keep, workers)
    most = {BRED: matches_of(config), ALONE: most_matches(lifetime(config))}
    after = {ALONE: [alone[ALONE, seed]["after"] for seed in seeds]}
    after[BRED] = [bred(config.model_copy(update={"seed": seed}), keep / f"bred-{seed}") for seed in seeds]
    rows = {name: [row(run, most[name]) for run in after[name]] for name in (ALONE, BRED)}
    columns = {f"percentile_{p}": f"{p}th" for p in PERCENTILES} | {"mean": "mean over games"}
    columns |= {"after_1": "after a third", "after_2": "after two thirds", "elite": "the elite"}
    columns |= {"matches": "matches at most"}
    over_games = {
        "game": "eight games",
        "figure": "share of what can be had, mean of five percentiles over games",
        "less_is_better": False,
        "columns": columns,
        "conditions": [{"name": name, "runs": runs} for name, runs in rows.items()],
    }
    by_game = [
        {
            "game": game,
            "figure": "share of what can be had",
            "less_is_better": False,
            "columns": {},
            "conditions": [
                {"name": name, "runs": [{"figure": run["worth"][game]} for run in runs]} for name, runs in rows.items()
            ],
        }
        for game in config.games
    ]
    return {"study": "generations", "seeds_used": list(seeds), "tables": [over_games, *by_game]}


def draw(path: Path = PICTURE) -> None:
    """Draw the stored result: means over seeds by generation, a panel for each percentile over games."""
    from league.training.board.figures.charts import Curve, draw_curves

    result = json.loads((RESULTS / "generations.json").read_text(encoding="utf-8"))["result"]
    thirds = list(range(1, GENERATIONS + 1))
    panels: dict[str, list[Curve]] = {}
    for condition in result["tables"][0]["conditions"]:
        by_third = [[summary(run["after"][third - 1]) for run in condition["runs"]] for third in thirds]
        for name in (*(f"percentile_{p}" for p in PERCENTILES), "mean"):
            title = f"{name.removeprefix('percentile_')}th percentile" if name != "mean" else "mean over games"
            values = [fmean([run[name] for run in runs]) for runs in by_third]
            panels.setdefault(title, []).append(Curve(LABELS[condition["name"]], thirds, values))
    draw_curves("Share of what can be had, by third of the matches", panels).savefig(path)


def main() -> None:
    """Measure and print, or draw."""
    run_study(__doc__, ["generations"], measure_study, table_lines, draw)


if __name__ == "__main__":
    main()
