"""The worth of training teams on sums: malt, cory and comas against the untrained team and outcome-only grpo.

    python -m benchmarks.studies.relay STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every role has a policy of its own, and every condition of a study starts alike and plays the same number of matches.
A team is measured on held-out matches, which its newest snapshots play: in `relay` and `pair` how often the last seat
is right, in `judged` the solver. The untrained condition is the same team before it learns. With --keep, an interrupted
measurement continues.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines, with_time_of_asking
from league import RunConfig, open_run

MATCHES = 512  # in an iteration
HELD_OUT = 2048
COMMON: dict[str, Any] = {
    "threads": 1,
    "episodes_kept": 0,
    "objective": {"entropy": 0.02, "kl_old": 0.3},
    "optimizer": {"learning_rate": 1e-3, "inner_steps": 2},
    "model": {"hidden_size": 64, "intermediate_size": 128, "vocabulary": 320},
    "evaluation": {"exact": False, "matches": 0, "anchors": []},
}


class Study(NamedTuple):
    """One kind of team, its game and its training."""

    game: str
    roles: tuple[str, ...]
    answering_seat: int  # whose answer is the team's
    iterations: int
    cold_start: dict[str, Any]


# From nothing a team never learns to use a critic: a critique without meaning is ignored, and one that is ignored never
# gets a meaning. So the relay starts by imitating a team that is half optimal, half random.
HALF_ABLE = {"players": ["random", "scripted:optimal"], "steps": 150, "matches": 600}
STUDIES = {
    "relay": Study("relay_arithmetic(most=4)", ("generator", "verifier", "refiner"), 2, 60, HALF_ABLE),
    "pair": Study("pair_arithmetic", ("pioneer", "observer"), 1, 100, {"matches": 100}),
    "judged": Study("judged_arithmetic(most=4)", ("solver", "evaluator"), 0, 60, {"matches": 100}),
}


class Condition(NamedTuple):
    """One way to train a team."""

    study: str
    name: str
    rule: str
    settings: tuple[str, ...] = ("matchmaking.group_size=8",)  # KEY=VALUE, as --set takes them
    game: str = ""  # played in place of the study's
    trained: bool = True

    @property
    def played(self) -> str:
        """The game that the team trains on."""
        return self.game or STUDIES[self.study].game


CONDITIONS = (
    Condition("relay", "grpo, outcome only", "grpo"),
    Condition("relay", "untrained", "grpo", trained=False),
    Condition("relay", "malt, trees of 2", "malt", ("matchmaking.tree=2",)),
    Condition("relay", "malt, trees of 4", "malt", ("matchmaking.tree=4",)),
    Condition(
        "relay",
        "malt, DPO, trees of 2",
        "malt",
        ("matchmaking.tree=2", "objective.name=dpo", "policies.generator.objective=ppo"),
    ),
    Condition("pair", "grpo, each its own outcome", "grpo"),
    Condition("pair", "untrained", "grpo", trained=False),
    Condition("pair", "cory, roles swapped", "cory", ("matchmaking.group_size=8", "matchmaking.swap_every=10")),
    Condition("pair", "cory, roles kept", "cory"),
    Condition("judged", "grpo, each its own outcome", "grpo", game="judged_arithmetic(most=4,score=0)"),
    Condition("judged", "untrained", "grpo", trained=False),
    Condition("judged", "comas", "comas"),
    Condition("judged", "grpo on comas's payoffs", "grpo"),
)


def settings_of(condition: Condition) -> RunConfig:
    """Return the settings of a condition."""
    study = STUDIES[condition.study]
    iterations = study.iterations if condition.trained else 1
    data = COMMON | {
        "iterations": iterations,
        "snapshot_every": iterations,
        "cold_start": study.cold_start,
        "games": {condition.played: {"matches": MATCHES}},
        "roles": {"policy": {f"{condition.played}/{role}": role for role in study.roles}},
        "credit": {"rule": condition.rule},
        "matchmaking": {"self_play": 1.0, "fictitious": 0.0},
    }
    if not condition.trained:
        data |= {"optimizer": COMMON["optimizer"] | {"learning_rate": 0.0}}
    return load_settings(tomli_w.dumps(data), condition.settings)


def measure(run_dir: Path, answering_seat: int) -> dict[str, float]:
    """Return how often a run's team is right, and how long it took to find out."""
    started = time.perf_counter()
    return {"figure": held_out(run_dir, answering_seat), "asked": time.perf_counter() - started}


def held_out(run_dir: Path, answering_seat: int) -> float:
    """Return how often a run's newest team is right, in matches that it did not train on."""
    from arena.records import MatchRequest
    from arena.scheduler import play
    from games.common.seeds import derive_seed
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve

    [game] = open_run(run_dir).config.games
    team = resolve(str(run_dir), make_game(game).spec, Engines())
    players = tuple(members[0][0] for members in team.members)
    requests = [
        MatchRequest(
            i, game, derive_seed(i, "held out deal"), derive_seed(i, "held out"), players, (False,) * len(players)
        )
        for i in range(HELD_OUT)
    ]
    episodes = play(
        requests, roles_of=lambda _: team.roles, engine_of=lambda _: team.engine, make_game=make_game, in_flight=256
    )
    return sum(episode.returns[answering_seat] == 1.0 for episode in episodes) / HELD_OUT


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of a study that are not in ``keep`` yet; return its table."""
    conditions = [condition for condition in CONDITIONS if condition.study == study]
    configs = {condition.name: settings_of(condition) for condition in conditions}
    ask = partial(measure, answering_seat=STUDIES[study].answering_seat)
    figures = with_time_of_asking(measure_runs(configs, seeds, ask, keep, workers))
    table = {
        "game": f"{STUDIES[study].game}, {STUDIES[study].iterations} iterations of {MATCHES} matches",
        "figure": "share of held-out sums answered right",
        "less_is_better": False,
        "columns": {"seconds": "seconds"},
        "conditions": [{"name": c.name, "runs": [figures[c.name, seed] for seed in seeds]} for c in conditions],
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(STUDIES), measure_study, table_lines)


if __name__ == "__main__":
    main()
