"""What training teams on sums is worth: malt, cory and comas against the untrained team and outcome-only grpo.

    python -m benchmarks.relay STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every role has a policy of its own, from nothing, and every condition plays the same number of matches. What a team is
worth is told by matches that it did not learn from, dealt anew and played by its newest snapshots: in `relay`
and `pair` how often the last seat is right, in `judged` the solver. Untrained is the same team before it learns. With
--keep, finished runs are remembered, so a measurement that was cut off goes on where it stopped.
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

ITERATIONS = 100
MATCHES = 512  # in an iteration
HELD_OUT = 2048
COMMON: dict[str, Any] = {
    "threads": 1,
    "episodes_kept": 0,
    "iterations": ITERATIONS,
    "snapshot_every": ITERATIONS,
    "objective": {"entropy": 0.02, "kl_old": 0.3},
    "learner": {"learning_rate": 1e-3, "inner_steps": 2},
    "model": {"hidden_size": 64, "intermediate_size": 128, "vocabulary": 320},
    "cold_start": {"matches": 100},
    "evaluation": {"exact": False, "matches": 0, "anchors": []},
}
GROUP = {"group_size": 8}


class Condition(NamedTuple):
    """One way to train a team; a rate of 0 leaves it as it was."""

    study: str
    name: str
    rule: str
    drawn: dict[str, int]  # settings of matchmaking
    rate: float = 1e-3


ROLES = {
    "relay": ("relay_arithmetic", ("generator", "verifier", "refiner")),
    "pair": ("pair_arithmetic", ("pioneer", "observer")),
    "judged": ("judged_arithmetic", ("solver", "evaluator")),
}
ANSWERS = {"relay": 2, "pair": 1, "judged": 0}  # the seat whose answer is the team's
CONDITIONS = (
    Condition("relay", "grpo, outcome only", "grpo", GROUP),
    Condition("relay", "untrained", "grpo", GROUP, 0.0),
    Condition("relay", "malt, trees of 4", "malt", {"tree": 4}),
    Condition("pair", "grpo, each its own outcome", "grpo", GROUP),
    Condition("pair", "untrained", "grpo", GROUP, 0.0),
    Condition("pair", "cory, roles swapped", "cory", GROUP | {"swap_every": 10}),
    Condition("pair", "cory, roles kept", "cory", GROUP),
    Condition("judged", "grpo", "grpo", GROUP),
    Condition("judged", "untrained", "grpo", GROUP, 0.0),
    Condition("judged", "comas", "comas", GROUP),
)


class Run(NamedTuple):
    """One training run to be measured."""

    condition: Condition
    seed: int

    @property
    def key(self) -> str:
        """What tells this run from others of any study."""
        return json.dumps([COMMON, MATCHES, HELD_OUT, *self.condition, self.seed])


def settings_of(run: Run) -> dict[str, Any]:
    """Return the settings of a run."""
    condition = run.condition
    game, roles = ROLES[condition.study]
    return COMMON | {
        "seed": run.seed,
        "iterations": ITERATIONS if condition.rate else 1,
        "games": {game: {"matches": MATCHES}},
        "roles": {"policy": {f"{game}/{role}": role for role in roles}},
        "credit": {"rule": condition.rule},
        "matchmaking": {"self_play": 1.0, "fictitious": 0.0, **condition.drawn},
        "learner": COMMON["learner"] | {"learning_rate": condition.rate},
    }


def measure(run: Run) -> dict[str, float]:
    """Train in a temporary folder and return how often the team is right, and how long it took."""
    import tomli_w

    from league import settings
    from league.session import train

    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="league-") as temporary, contextlib.redirect_stderr(io.StringIO()):
        toml, run_dir = Path(temporary, "config.toml"), Path(temporary, "run")
        toml.write_text(tomli_w.dumps(settings_of(run)), encoding="utf-8")
        train(settings.load(str(toml), []), run_dir)
        figure = held_out(run_dir, run.condition.study)
    return {"figure": figure, "seconds": time.perf_counter() - started}


def held_out(run_dir: Path, study: str) -> float:
    """Return how often a run's newest team is right, in matches that it did not train on."""
    from arena.records import MatchRequest
    from arena.scheduler import play
    from games.registry import make_game
    from games.seeds import derive_seed
    from league.players import Engines, resolve

    game = ROLES[study][0]
    team = resolve(str(run_dir), make_game(game).spec, Engines())
    seated = tuple(members[0][0] for members in team.members)
    requests = [
        MatchRequest(
            i, game, derive_seed(i, "held out deal"), derive_seed(i, "held out"), seated, (False,) * len(seated)
        )
        for i in range(HELD_OUT)
    ]
    episodes = play(
        requests, roles_of=lambda _: team.roles, engine_of=lambda _: team.engine, make_game=make_game, in_flight=256
    )
    return sum(episode.returns[ANSWERS[study]] == 1.0 for episode in episodes) / HELD_OUT


def compared(study: str, seeds: Sequence[int], workers: int, keep: Path) -> dict[str, Any]:
    """Return the table of a study's conditions."""
    conditions = [one for one in CONDITIONS if one.study == study]
    runs = [Run(condition, seed) for seed in seeds for condition in conditions]
    known = measured(runs, measure, keep / "relay.jsonl", workers, _shown)
    return {
        "game": f"{ROLES[study][0]}, {ITERATIONS} iterations of {MATCHES} matches",
        "figure": "share of held-out sums answered right",
        "less_is_better": False,
        "columns": {"seconds": "seconds"},
        "conditions": [{"name": c.name, "runs": [known[Run(c, seed).key] for seed in seeds]} for c in conditions],
    }


def _shown(run: Run, found: dict[str, float]) -> str:
    """Return one finished run in a line."""
    return f"{run.condition.name}, seed {run.seed}: {found['figure']:.3f} ({found['seconds']:.0f} s)"


def main() -> None:
    """Measure and print."""
    arguments = arguments_of(__doc__, list(ROLES))
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        keep = arguments.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        table = compared(arguments.study, arguments.seeds, arguments.workers, keep)
    if arguments.json:
        print(json.dumps({"study": arguments.study, "seeds_used": arguments.seeds, "tables": [table]}))
        return
    for condition in table["conditions"]:
        print(f"{condition['name']}:", *(f"{run['figure']:.3f}" for run in condition["runs"]))


if __name__ == "__main__":
    main()
