"""Partners that strangers understand: what self-play, and learning with partners, earn with strangers.

    python -m benchmarks.studies.cooperation.partners STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

`partners` is Lewis's signalling game with three states and words and one round, OpenSpiel's `lewis_signaling`. In every
condition one of three partners, who are trained too, is held out. The score of ad-hoc teamwork is what the newest main
snapshot earns with that stranger as a share of what it earns with itself; "between seeds" is what it earns with the
newest ones of the condition's other seeds. In `partners-newest` all meet each other's newest snapshots alone, and
exploration is paid for longer; in `partners-half` each partner also plays half of its matches with itself, in place of
a fifth; in `partners-exact` every legal reply is credited by what it is worth, counted out, in an eighth of the
matches. `partners-hanabi` is Tiny Hanabi in self-play, by how long exploration is paid for. Figures are exact. With
--keep, an interrupted study continues, and further seeds join it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from league import RunConfig, UsageError, make_game
from league.lab.standings.teamwork import run_teamwork
from league.population.evaluation.policy_tables import PolicyTables
from league.population.storage.run_dir import STATE_FOLDER, open_run
from league.theory.exact.equilibrium_gaps import exact_game
from league.theory.exact.exploitability import PolicyTable
from league.training.board.metrics_log import read_metrics

LEWIS, HANABI = "signalling(rounds=1,form=1)", "tiny_hanabi"
COMMON = """
threads = 1
episodes_kept = 0
roles.reply = "choice"
evaluation = { matches = 0, anchors = [] }
"""
ALONE = """
iterations = 100
objective = { name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 0.5 }
optimizer = { learning_rate = 2e-3, learning_rate_end = 2e-4, inner_steps = 4, minibatch_prompts = 128 }
snapshot_every = 5
games."signalling(rounds=1,form=1)" = { matches = 1024, entropy = 0.3, entropy_end = 0.05 }
"""
SIGNALS = f"""{ALONE}
matchmaking = {{ self_play = 0.2, fictitious = 0.0, partners = 0.8, opponents = 2 }}
exploiters.share = 0.2
[policies]
ann = {{ league_role = "partner" }}
bob = {{ league_role = "partner" }}
eve = {{ league_role = "partner", held_out = true }}
"""
BY_ITSELF = ("matchmaking.self_play=0.8", "matchmaking.fictitious=0.2", "matchmaking.partners=0")
TOGETHER = "exploiters.together=0.8"
CONDITIONS = {  # of `partners`: settings
    "self-play and its own past": BY_ITSELF,
    "partners who meet each other": (TOGETHER,),
}
NEWEST = {  # of `partners-newest`: settings
    "partners who meet each other's newest, entropy 0.3 to 0.1": (
        TOGETHER,
        "matchmaking.keep=1",
        f"games.'{LEWIS}'.entropy_end=0.1",
    ),
}
HALF = {  # of `partners-half`: settings
    "partners who meet each other's newest, half of their matches with themselves": (
        *next(iter(NEWEST.values())),
        "exploiters.together=0.5",
    ),
}
COUNTED_OUT = (  # every legal reply is credited by what it is worth
    "credit.rule=contribution",
    "values.estimator=exact",
    "values.exact.all_replies=true",
    "objective.normalisation=prompt_mean",
    f"games.'{LEWIS}'.matches=128",
)
EXACT = {  # of `partners-exact`: settings
    "partners who meet each other's newest, all replies credited exactly": (
        *next(iter(NEWEST.values())),
        *COUNTED_OUT,
    ),
}
CARDS = """
iterations = 120
objective = { name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 2.0 }
optimizer = { learning_rate = 1e-3, learning_rate_end = 2e-4, inner_steps = 4, minibatch_prompts = 128 }
snapshot_every = 10
games.tiny_hanabi = { matches = 512, entropy = 0.6, entropy_end = 0.02 }
matchmaking = { self_play = 0.8, fictitious = 0.2, opponents = 1 }
"""
EXPLORING = {  # of `partners-hanabi`: settings
    "entropy 0.6 to 0.02, as in `pocket`": (),
    "entropy 1 to 0.05": ("games.tiny_hanabi.entropy=1", "games.tiny_hanabi.entropy_end=0.05"),
}
WITH_STRANGERS = {
    "with_strangers": "with strangers",
    "understood": "share of seeds with 0.9 or more",
    "with_itself": "with itself",
    "between": "between seeds",
}
STUDIES: dict[
    str, tuple[Mapping[str, tuple[str, ...]], str]
] = {  # the settings of each condition, by study, and what they change
    "partners": (CONDITIONS, SIGNALS),
    "partners-newest": (NEWEST, SIGNALS),
    "partners-half": (HALF, SIGNALS),
    "partners-exact": (EXACT, SIGNALS),
    "partners-hanabi": (EXPLORING, CARDS),
}
COLUMNS = {
    "partners": WITH_STRANGERS,
    "partners-newest": WITH_STRANGERS,
    "partners-half": WITH_STRANGERS,
    "partners-exact": WITH_STRANGERS,
    "partners-hanabi": {"share": "share of seeds above 9.5"},
}
WANTED = 0.9  # mean return with strangers
ABOVE_SECOND = 9.5  # of 10 points: the second-best convention pays 9


def conditions(study: str) -> dict[str, RunConfig]:
    """Return the configurations that are compared, by name."""
    settings, game = STUDIES[study]
    return {name: load_settings(COMMON + game, overrides) for name, overrides in settings.items()}


def measure_teamwork(run_dir: Path) -> dict[str, Any]:
    """Return the teamwork of a run's newest main snapshot, and its policy as rows of seat, state and probabilities."""
    run, spec = open_run(str(run_dir)), make_game(LEWIS).spec
    newest = run_teamwork(run, spec, None)[-1]
    table = PolicyTables(run.path / STATE_FOLDER / "tables", limit=run.config.evaluation.exact_limit).stored(
        (newest.player,) * 2, spec
    )
    if table is None:
        raise UsageError(f"{run_dir} has no table of {newest.player}. Remove it, so that it is trained again.")
    figures = {"figure": newest.score, "with_strangers": newest.with_strangers, "with_itself": newest.with_itself}
    figures["understood"] = float(newest.with_strangers >= WANTED)
    return figures | {"policy": [[*key, *row] for key, row in table.probabilities.items()]}


def measure_return(run_dir: Path) -> dict[str, Any]:
    """Return what a run's newest snapshot earns with itself in Tiny Hanabi."""
    last = [line[f"{HANABI}/return"] for line in read_metrics(run_dir) if f"{HANABI}/return" in line][-1]
    return {"figure": last, "share": float(last > ABOVE_SECOND)}


def between(policies: Sequence[Sequence[Sequence[Any]]]) -> list[float]:
    """Return what each policy, as rows, earns with the others, the mean over them and both seatings."""
    tables = [PolicyTable(LEWIS, {(seat, state): tuple(row) for seat, state, *row in rows}) for rows in policies]
    first, second = exact_game([tables] * 2).values
    returns = (first + second.T) / 2.0
    return [float(np.delete(row, index).mean()) for index, row in enumerate(returns)]


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of a study that are not in ``keep`` yet; return its table."""
    configs = conditions(study)
    with_strangers = "with_strangers" in COLUMNS[study]
    measure = measure_teamwork if with_strangers else measure_return
    figures = measure_runs(configs, seeds, measure, keep, workers)
    rows = {condition: [dict(figures[condition, seed]) for seed in seeds] for condition in configs}
    if with_strangers and len(seeds) > 1:
        for runs in rows.values():
            for run, earned in zip(runs, between([run["policy"] for run in runs]), strict=True):
                run["between"] = earned
    for run in (run for runs in rows.values() for run in runs):
        run.pop("policy", None)
    game, figure = (LEWIS, "score of ad-hoc teamwork") if with_strangers else (HANABI, "mean return with itself")
    table = {
        "game": game,
        "figure": figure,
        "less_is_better": False,
        "columns": COLUMNS[study],
        "conditions": [{"name": condition, "runs": runs} for condition, runs in rows.items()],
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(COLUMNS), measure_study, table_lines)


if __name__ == "__main__":
    main()
