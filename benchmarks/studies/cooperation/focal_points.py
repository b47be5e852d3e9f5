"""Focal points: whether runs that never met agree on a code, from nothing and from a pretrained model.

    python -m benchmarks.studies.cooperation.focal_points STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

`focal_points` is Lewis's signalling game with three states and words and one round, whose words are invented. Every run
learns by itself, and the score is what its newest snapshot earns with those of the other seeds: what all expect all to
choose (Schelling 1960). Of codes that are drawn at random two earn 1/3. All seeds of SmolLM2-135M begin with the same
play, and where every reply is credited by what it is worth they differ by little but the adapter's first weights; of
returns alone they differ by all that is drawn. Figures are exact. With --keep, an interrupted study continues, and
further seeds join it.

What the start decides is measured apart: from a run's first policy a table is taken along the exact values of all
replies (mirror ascent), and the code that it ends with is compared with the run's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.studies.cooperation.partners import ALONE, COMMON, COUNTED_OUT, LEWIS, between
from benchmarks.studies.runs import SMOLLM2, Result, load_settings, measure_runs, run_study, table_lines
from games.talk.signalling import INVENTED, STATES
from league import RunConfig, UsageError, make_game
from league.population.evaluation.policy_tables import PolicyTables
from league.population.storage.run_dir import STATE_FOLDER, open_run

Policy = Sequence[list[Any]]  # rows of seat, information state and the probabilities of replies

STUDY = "focal_points"
BY_ITSELF = ("matchmaking.self_play=1", "matchmaking.fictitious=0")
READS = (
    *SMOLLM2,
    "iterations=20",
    "objective.kl_old=0.25",
    "optimizer.learning_rate=1e-3",
    "optimizer.inner_steps=2",
    f"games.'{LEWIS}'.matches=128",
    f"games.'{LEWIS}'.entropy=0.1",
    f"games.'{LEWIS}'.entropy_end=0.02",
)
CONDITIONS = {  # settings
    "a pocket model, from nothing": (*COUNTED_OUT, f"games.'{LEWIS}'.entropy_end=0.1"),
    "SmolLM2-135M": (*COUNTED_OUT, *READS),
    "SmolLM2-135M, of returns alone": READS,
}
COLUMNS = {
    "with_itself": "with itself",
    "with_first": "with what it began as",
    "commonest": "share of seeds that end with the commonest code",
    "foreseen": "share that end with the code to which a table goes from their first policy",
}
STEPS, RATE, ENTROPY = 400, 0.1, 0.1  # of the table; the entropy's weight falls to 0


def conditions() -> dict[str, RunConfig]:
    """Return the configurations that are compared, by name."""
    return {name: load_settings(COMMON + ALONE, (*BY_ITSELF, *settings)) for name, settings in CONDITIONS.items()}


def measure_policies(run_dir: Path) -> dict[str, Any]:
    """Return a run's first and newest policy as rows of seat, state and probabilities."""
    run, spec = open_run(str(run_dir)), make_game(LEWIS).spec
    tables = PolicyTables(run.path / STATE_FOLDER / "tables", limit=run.config.evaluation.exact_limit)
    snapshots = run.population.all()
    stored = [tables.stored((snapshot.id,) * 2, spec) for snapshot in (snapshots[0], snapshots[-1])]
    if None in stored:
        raise UsageError(f"{run_dir} lacks the table of a snapshot. Remove it, so that it is trained again.")
    rows = [[[*key, *row] for key, row in sorted(table.probabilities.items())] for table in stored if table]
    return {"first": rows[0], "newest": rows[1]}


def code(policy: Policy) -> tuple[int, ...]:
    """Return the likeliest reply in each state, in the order of seats and states."""
    return tuple([max(range(len(row)), key=row.__getitem__) for _seat, _state, *row in sorted(policy)])


def ascended(policy: Policy) -> list[list[Any]]:
    """Return the policy to which exact mirror ascent leads from this one: each reply's logit rises by its value."""
    said, chosen, rows = np.empty((3, 3)), np.empty((3, 3)), sorted(policy)
    places = [_place(seat, state) for seat, state, *_ in rows]
    for (seat, place), (_, _, *row) in zip(places, rows, strict=True):
        (chosen if seat else said)[place] = row  # [state, word], and [word, state]
    for step in range(STEPS):
        weight = ENTROPY * (1.0 - step / STEPS)
        said_next = _risen(said, chosen.T, weight)
        chosen = _risen(chosen, (said / said.sum(0)).T, weight)  # what a word stands for as it is said now
        said = said_next
    return [
        [seat, state, *(chosen if seat else said)[place].tolist()]
        for (_, place), (seat, state, *_) in zip(places, rows, strict=True)
    ]


def _risen(table: NDArray[np.float64], values: NDArray[np.float64], entropy: float) -> NDArray[np.float64]:
    """Return rows of probabilities after one step along the values of replies, and of their entropy."""
    raised = table * np.exp(RATE * (values - entropy * np.log(table)))
    return np.asarray(raised / raised.sum(1, keepdims=True))


def _place(seat: int, state: str) -> tuple[int, int]:
    """Return the seat, and which state its information state shows, or which word."""
    shown = state.rsplit(" ", 1)[1].rstrip(".")
    return seat, (INVENTED if seat else STATES).index(shown)


def summarise(policies: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """Return each seed's figures, of at least two seeds."""
    codes = [code(policy["newest"]) for policy in policies]
    [(commonest, _times)] = Counter(codes).most_common(1)
    with_others = between([policy["newest"] for policy in policies])
    return [
        {
            "figure": earned,
            "with_itself": between([policy["newest"]] * 2)[0],
            "with_first": between([policy["newest"], policy["first"]])[0],
            "commonest": float(ended == commonest),
            "foreseen": float(ended == code(ascended(policy["first"]))),
        }
        for policy, ended, earned in zip(policies, codes, with_others, strict=True)
    ]


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the study's table."""
    if len(seeds) < 2:
        raise UsageError(f"{study} is of what seeds earn with each other; give it at least two, as --seeds 0 1.")
    figures = measure_runs(conditions(), seeds, measure_policies, keep, workers)
    rows = {}
    for condition in CONDITIONS:
        runs = [figures[condition, seed] for seed in seeds]
        rows[condition] = [row | {"seconds": run["seconds"]} for row, run in zip(summarise(runs), runs, strict=True)]
    table = {
        "game": LEWIS,
        "figure": "mean return with the other seeds",
        "less_is_better": False,
        "columns": COLUMNS,
        "conditions": [{"name": condition, "runs": runs} for condition, runs in rows.items()],
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, [STUDY], measure_study, table_lines)


if __name__ == "__main__":
    main()
