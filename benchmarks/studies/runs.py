"""The runs of a study, trained and remembered by `league sweep`, so that an interrupted study continues."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import league

if TYPE_CHECKING:
    from league.lab.sweeps.questions import Question
    from league.lab.sweeps.record import Cost

Result = dict[str, Any]  # of a study, as the page's tables read it
FIGURES = "figures"  # what a study asks about each run
SMOLLM2 = (  # settings that train an adapter of SmolLM2-135M in place of a pocket model
    "model.source=smollm2-135m",
    "model.device=auto",
    "model.dtype=auto",
    "policies.main.weights=lora",
    "policies.main.rank=16",
    "roles.wording=brief",
    "cold_start.steps=0",
    "optimizer.micro_batch_tokens=0",
)


def load_settings(toml: str, overrides: Sequence[str] = ()) -> league.RunConfig:
    """Return the configuration of TOML text, with overrides as KEY=VALUE."""
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        path = Path(temporary, "config.toml")
        path.write_text(toml, encoding="utf-8")
        return league.load_config(path, *overrides)


def a_policy_per_role(config: league.RunConfig, game: str) -> list[str]:
    """Return the overrides that give each role of a game a policy of its own."""
    from league.config.load import seat_roles

    roles = seat_roles(config.roles, league.make_game(game).spec)
    return [f"roles.policy.'{game}/{role.name}'={role.name}" for role in roles]


def sweep(
    configs: Mapping[str, league.RunConfig], seeds: Sequence[int], folder: Path, **how: Any
) -> dict[tuple[str, int], league.SweptRun]:
    """Return ``league.sweep``'s runs by condition and seed; what it tells goes to standard error."""

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    runs = league.sweep(configs, folder, seeds=seeds, announce=tell, **how)
    return {(run.condition, run.seed): run for run in runs}


def measure_runs(
    configs: Mapping[str, league.RunConfig],
    seeds: Sequence[int],
    measure: Question,
    folder: Path,
    workers: int,
    tokens: int | None = None,
) -> dict[tuple[str, int], dict[str, Any]]:
    """Return by condition and seed what ``measure`` says of each run, with the seconds that training took."""
    swept = sweep(configs, seeds, folder, workers=workers, tokens=tokens, questions={FIGURES: measure})
    return {key: {**run.answers[FIGURES], "seconds": cost_of(run).training_seconds} for key, run in swept.items()}


def cost_of(run: league.SweptRun) -> Cost:
    """Return what a run took. Raises UsageError for one that another command has trained."""
    if run.cost is None:
        raise league.UsageError(f"What {run.run} took is not known: no sweep has trained it. Choose another --keep.")
    return run.cost


def with_time_of_asking(figures: dict[tuple[str, int], dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return figures whose seconds are those of training and of the matches that measure, which ``asked`` has."""
    return {
        key: {name: value for name, value in run.items() if name != "asked"}
        | {"seconds": run["seconds"] + run["asked"]}
        for key, run in figures.items()
    }


def run_study(
    description: str | None,
    studies: Sequence[str],
    measure: Callable[[str, Sequence[int], int, Path], Result],
    lines: Callable[[Result], Iterator[str]],
    draw: Callable[[], None] | None = None,
) -> None:
    """Run the command line of a module of studies: ``measure(study, seeds, workers, keep)``, then print.

    With ``--draw`` alone it only draws the stored results, where there is ``draw``.
    """
    if draw is not None and sys.argv[1:] == ["--draw"]:
        draw()
        return
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=sorted(studies))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the runs in DIR/STUDY, and go on with them")
    parser.add_argument("--workers", type=int, default=2, help="runs side by side")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # for the workers
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        keep = (arguments.keep or Path(temporary)) / arguments.study
        try:
            result = measure(arguments.study, arguments.seeds, arguments.workers, keep)
        except league.UsageError as error:
            parser.exit(2, f"{error}\n")
    for line in [json.dumps(result)] if arguments.json else lines(result):
        print(line)


def run_untrained(description: str | None, part: str, measure: Callable[[Sequence[int]], Result]) -> None:
    """Run the command line of a study in which nothing is trained: print ``measure(seeds)`` as JSON."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=[part], default=part)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--keep", metavar="DIR", help="accepted as by other studies; nothing is trained here")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.seeds), indent=None if arguments.json else 2))


def table_lines(result: Result) -> Iterator[str]:
    """Yield a line for each game and condition of a result with ``tables``."""
    for table in result["tables"]:
        for condition in table["conditions"]:
            figures = " ".join(f"{run['figure']:.3f}" for run in condition["runs"])
            yield f"{table['game']}: {table['figure']}: {condition['name']}: {figures}"
