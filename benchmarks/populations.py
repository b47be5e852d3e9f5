"""What a population is worth: self-play, fictitious play, PSRO, exploiters and joint PSRO with the same budget.

    python -m benchmarks.populations STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every condition of a study trains the same small model from nothing, on the same number of matches and updates, with
settings that are equal but for who meets whom. What is shown is exact: the game is counted out. With --keep,
finished runs are remembered, so a measurement that was cut off goes on where it stopped.
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

from benchmarks.studies import arguments_of, measured

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
    "learner.minibatch_prompts=128",
    "evaluation.matches=0",
)


class Condition(NamedTuple):
    """One way to meet opponents."""

    name: str
    settings: tuple[str, ...]  # KEY=VALUE, as --set takes them
    shared: bool = True  # one policy in all seats, or one for each role


class Study(NamedTuple):
    """Games to train in and conditions to compare."""

    games: dict[str, str]  # settings of the game, TOML, by name
    settings: tuple[str, ...]  # of all conditions
    figures: dict[str, str]  # words by metric
    conditions: tuple[Condition, ...]
    compared: bool = True  # with the first condition, rather than each with its own beginning


MEASURED = {"exploitability": "the newest snapshot", "mixture_exploitability": "the mixture"}
GAPS = {"cce_gap": "CCE gap of the meta-strategy", "ce_gap": "CE gap of the meta-strategy"}


def _meeting(name: str, *settings: str, **shares: float) -> Condition:
    """Return a condition in which these shares of the matches are drawn by these rules, and none by others."""
    given = {"self_play": 0.0, "fictitious": 0.0} | shares
    return Condition(name, (*(f"matchmaking.{rule}={share}" for rule, share in given.items()), *settings))


def _joint(solver: str) -> Condition:
    chosen = (f"matchmaking.jpsro_solver={solver}", "matchmaking.response_from=best")
    return _meeting(f"JPSRO, {solver.upper()}", *chosen, jpsro=1.0)._replace(shared=False)


POPULATIONS = (
    _meeting("self-play", self_play=1.0),
    _meeting("fictitious play", self_play=0.5, fictitious=0.5),
    _meeting("PSRO, Nash", psro=1.0),
    _meeting("PSRO, least exploitable", "matchmaking.psro_solver=least_exploitable", psro=1.0),
    _meeting(
        "PFSP and exploiters",
        "policies.probe.learner=main_exploiter",
        "policies.rover.learner=league_exploiter",
        "exploiters.share=0.15",
        "exploiters.freeze_from=10",
        "exploiters.freeze_after=20",
        self_play=0.5,
        pfsp=0.35,
        verification=0.15,
    ),
)
_SLOW = ("learner.learning_rate=1e-3", "learner.learning_rate_end=2e-4", "objective.kl_old=2.0")
_FAST = (
    "learner.learning_rate=2e-3",
    "learner.learning_rate_end=3e-4",
    "learner.inner_steps=8",
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


class Run(NamedTuple):
    """One training run to be measured."""

    study: str
    game: str
    condition: Condition
    seed: int

    @property
    def key(self) -> str:
        """What tells this run from others of any study."""
        study = STUDIES[self.study]
        return json.dumps([self.game, study.games[self.game], COMMON, study.settings, *self.condition, self.seed])


def measure(run: Run) -> dict[str, Any]:
    """Train in a temporary folder and return the run's curves: what each snapshot's iteration measured."""
    from games.registry import make_game
    from league import settings
    from league.board import read_metrics
    from league.session import train

    study = STUDIES[run.study]
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        toml = Path(temporary) / "config.toml"
        toml.write_text(f'games."{run.game}" = {{ {study.games[run.game]} }}\n', encoding="utf-8")
        overrides = [f"seed={run.seed}", *COMMON, *study.settings, *run.condition.settings]
        if not run.condition.shared:
            roles = settings.seat_roles(settings.load(str(toml)).roles, make_game(run.game).spec)
            overrides += [f"roles.policy.'{run.game}/{role.name}'={role.name}" for role in roles]
        started = time.perf_counter()
        with contextlib.redirect_stderr(io.StringIO()):
            train(settings.load(str(toml), overrides), Path(temporary) / "run")
        seconds = time.perf_counter() - started
        lines = list(read_metrics(Path(temporary) / "run"))
    names = {name: f"{run.game}/{name}" for name in study.figures}
    frozen = [line for line in lines if all(metric in line for metric in names.values())]
    curves = {name: [line[metric] for line in frozen] for name, metric in names.items()}
    return {"seconds": seconds, "iterations": [line["iteration"] for line in frozen], **curves}


def study_of(name: str, seeds: Sequence[int], workers: int, keep: Path) -> dict[str, Any]:
    """Measure all runs of a study that ``keep`` does not know yet; return the curves by game and condition."""
    chosen = STUDIES[name]
    runs = [Run(name, game, c, seed) for game in chosen.games for seed in seeds for c in chosen.conditions]
    known = measured(runs, measure, keep / "populations.jsonl", workers, _shown)
    curves = [
        {
            "game": game,
            "figures": chosen.figures,
            "compared": chosen.compared,
            "conditions": [
                {"name": c.name, "runs": [known[Run(name, game, c, seed).key] for seed in seeds]}
                for c in chosen.conditions
            ],
        }
        for game in chosen.games
    ]
    return {"study": name, "seeds_used": list(seeds), "curves": curves}


def _shown(run: Run, found: dict[str, Any]) -> str:
    """Return one finished run in a line."""
    last = ", ".join(f"{name} {found[name][-1]:.3f}" for name in STUDIES[run.study].figures)
    return f"{run.game}, {run.condition.name}, seed {run.seed}: {last} ({found['seconds']:.0f} s)"


def main() -> None:
    """Measure and print."""
    arguments = arguments_of(__doc__, list(STUDIES))
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        keep = arguments.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        result = study_of(arguments.study, arguments.seeds, arguments.workers, keep)
    if arguments.json:
        print(json.dumps(result))
        return
    for table in result["curves"]:
        for condition in table["conditions"]:
            for name in table["figures"]:
                print(
                    f"{table['game']}: {condition['name']}: {name}:",
                    *(f"{run[name][-1]:.3f}" for run in condition["runs"]),
                )


if __name__ == "__main__":
    main()
