"""The worth of a population: self-play, fictitious play, PSRO, exploiters and joint PSRO with the same budget.

    python -m benchmarks.studies.self_play.populations STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every condition of a study trains the same small model from nothing, on the same number of matches and updates, with
settings that are equal but for the matchmaking. Figures are exact, over all positions of a game. With --keep, an
interrupted measurement continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.studies.runs import Result, a_policy_per_role, load_settings, measure_runs, run_study
from league import RunConfig, open_run

if TYPE_CHECKING:
    from league.lab.sweeps.questions import Question

SHERIFF = "sheriff(item_penalty=1.0,item_value=5.0,max_bribe=2,max_items=10,num_rounds=2,sheriff_penalty=1.0)"
THREE = "kuhn_poker(players=3)"

COMMON = (
    "threads=1",
    "episodes_kept=0",
    "model.hidden_size=64",
    "model.intermediate_size=128",
    "objective.name=ppo",
    "objective.clip_low=0.9",
    "objective.clip_high=9.0",
    "optimizer.minibatch_prompts=128",
    "evaluation.matches=0",
)


class Condition(NamedTuple):
    """One way of matchmaking."""

    name: str
    settings: tuple[str, ...]  # KEY=VALUE, as --set takes them
    shared: bool = True  # one policy in all seats, or one for each role


class Study(NamedTuple):
    """Games to train in and conditions to compare."""

    games: dict[str, str]  # settings of the game, TOML, by name
    settings: tuple[str, ...]  # of all conditions
    figures: dict[str, str]  # labels by metric
    conditions: tuple[Condition, ...]
    compared: bool = True  # with the first condition; False: each with its own start


MEASURED = {"exploitability": "the newest snapshot", "mixture_exploitability": "the mixture"}
GAPS = {"cce_gap": "CCE gap of the meta-strategy", "ce_gap": "CE gap of the meta-strategy"}


def drawn_by(name: str, *settings: str, **shares: float) -> Condition:
    """Return a condition in which the given rules draw these shares of the matches, and others none."""
    shares = {"self_play": 0.0, "fictitious": 0.0} | shares
    return Condition(name, (*(f"matchmaking.{rule}={share}" for rule, share in shares.items()), *settings))


def _joint(solver: str) -> Condition:
    settings = (f"matchmaking.jpsro_solver={solver}", "matchmaking.response_from=best")
    return drawn_by(f"JPSRO, {solver.upper()}", *settings, jpsro=1.0)._replace(shared=False)


POPULATIONS = (
    drawn_by("self-play", self_play=1.0),
    drawn_by("fictitious play", self_play=0.5, fictitious=0.5),
    drawn_by("PSRO, Nash", psro=1.0),
    drawn_by("PSRO, least exploitable", "matchmaking.psro_solver=least_exploitable", psro=1.0),
    drawn_by(
        "PFSP and exploiters",
        "policies.probe.league_role=main_exploiter",
        "policies.rover.league_role=league_exploiter",
        "exploiters.share=0.15",
        "exploiters.freeze_from=10",
        "exploiters.freeze_after=20",
        self_play=0.5,
        pfsp=0.35,
        verification=0.15,
    ),
)
_SLOW = ("optimizer.learning_rate=1e-3", "optimizer.learning_rate_end=2e-4", "objective.kl_old=2.0")
_FAST = (
    "optimizer.learning_rate=2e-3",
    "optimizer.learning_rate_end=3e-4",
    "optimizer.inner_steps=8",
    "objective.kl_old=0.5",
)
STUDIES = {
    "kuhn": Study(
        {"kuhn_poker": "matches = 512, entropy = 0.15, entropy_end = 0.02"},
        ("iterations=200", "snapshot_every=10", "evaluation.mixture=least_exploitable", *_SLOW),
        MEASURED,
        POPULATIONS,
    ),
    "leduc": Study(
        {"leduc_poker": "matches = 1024, entropy = 0.03, entropy_end = 0.02"},
        ("iterations=200", "snapshot_every=10", "evaluation.mixture=least_exploitable", *_FAST),
        MEASURED,
        POPULATIONS[:2],  # the others train less or need more time
    ),
    "joint": Study(
        {
            THREE: "matches = 384, entropy = 0.1, entropy_end = 0.02",
            SHERIFF: "matches = 256, entropy = 0.3, entropy_end = 0.05",
        },
        ("iterations=150", "snapshot_every=10", *_SLOW),
        GAPS,
        (_joint("mgcce"), _joint("mgce")),
        compared=False,
    ),
}


def settings_of(study: Study, game: str, condition: Condition) -> RunConfig:
    """Return the settings of a condition in a game."""
    toml = f'games."{game}" = {{ {study.games[game]} }}\n'
    overrides = [*COMMON, *study.settings, *condition.settings]
    return load_settings(
        toml, overrides if condition.shared else overrides + a_policy_per_role(load_settings(toml), game)
    )


def measure(run_dir: Path, figures: Sequence[str]) -> dict[str, Any]:
    """Return a run's curves: the figures of each iteration with a snapshot."""
    run = open_run(run_dir)
    [game] = run.config.games
    names = {name: f"{game}/{name}" for name in figures}
    measured = [line for line in run.iterations() if all(metric in line for metric in names.values())]
    curves = {name: [line[metric] for line in measured] for name, metric in names.items()}
    return {"iterations": [line["iteration"] for line in measured], **curves}


def measure_study(name: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of a study that are not in ``keep`` yet; return the curves by game and condition."""
    study = STUDIES[name]
    return curves_of(name, study, partial(measure, figures=tuple(study.figures)), seeds, (workers, keep))


def curves_of(name: str, study: Study, measure: Question, seeds: Sequence[int], how: tuple[int, Path]) -> Result:
    """Return the curves that ``measure`` gives of a study's runs by condition; ``how``: workers, folder."""
    workers, keep = how
    configs = {_label(game, c): settings_of(study, game, c) for game in study.games for c in study.conditions}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    curves = [
        {
            "game": game,
            "figures": study.figures,
            "compared": study.compared,
            "conditions": [
                {"name": c.name, "runs": [figures[_label(game, c), seed] for seed in seeds]} for c in study.conditions
            ],
        }
        for game in study.games
    ]
    return {"study": name, "seeds_used": list(seeds), "curves": curves}


def _label(game: str, condition: Condition) -> str:
    return f"{game}, {condition.name}"


def curve_summary(result: Result) -> Iterator[str]:
    """Yield a line for each game, condition and figure, with its last values."""
    for curve in result["curves"]:
        for condition in curve["conditions"]:
            for name in curve["figures"]:
                values = " ".join(f"{run[name][-1]:.3f}" for run in condition["runs"])
                yield f"{curve['game']}: {condition['name']}: {name}: {values}"


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(STUDIES), measure_study, curve_summary)


if __name__ == "__main__":
    main()
