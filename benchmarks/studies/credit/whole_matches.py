"""Objectives of whole matches beside PPO and DPO: what KTO and multi-turn DPO learn, and what keeps them from collapse.

    python -m benchmarks.studies.credit.whole_matches whole_matches [--seeds 0 1 2 3 4] [--keep DIR] [--json]

Every condition trains the same small model from nothing by self-play, on equally many matches and updates, with
settings that are equal but for what its name says. "near" adds ``objective.kl_old = 1``; "difference" weighs a match or
a pair by how much it did better (``objective.preference_weight``); "exact" credits turns with their exact advantages
(``values.estimator``), so that a match is good by what was chosen in it and not by its deal. ``dmpo`` needs several
matches of each deal, eight here, and ``dpo`` trees; it does not learn from seats that may speak twice, as in Kuhn
poker.
Figures are exact, of the newest snapshot and, in Kuhn poker, of the even mixture of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from league import open_run

NEAR, DIFFERENCE = {"kl_old": 1.0}, {"preference_weight": "difference"}
ALONE = {"self_play": 1.0, "fictitious": 0.0}
GROUPS = {"matchmaking": {**ALONE, "group_size": 8}}
EXACT = {"credit": {"rule": "contribution"}, "values": {"estimator": "exact"}}
TREES = {"credit": {"rule": "malt"}, "matchmaking": {**ALONE, "tree": 3}}  # 3 ** 2 = 9 matches of each deal


def _condition(objective: str, *more: dict[str, Any], **tables: Any) -> dict[str, Any]:
    """Return the settings of a condition: its objective with ``more``, and other tables."""
    found: dict[str, Any] = {"name": objective, "dpo_beta": 0.5}
    for settings in more:
        found |= settings
    return {"objective": found, **tables}


CONDITIONS: dict[str, dict[str, dict[str, Any]]] = {  # by game
    "kuhn_poker": {
        "ppo": _condition("ppo"),
        "ppo, near": _condition("ppo", NEAR),
        "kto": _condition("kto"),
        "kto, difference": _condition("kto", DIFFERENCE),
        "kto, near": _condition("kto", NEAR),
        "kto, near, difference": _condition("kto", NEAR, DIFFERENCE),
        "kto, near, difference, exact": _condition("kto", NEAR, DIFFERENCE, **EXACT),
        "dmpo, near": _condition("dmpo", NEAR, **GROUPS),
        "dmpo, near, difference": _condition("dmpo", NEAR, DIFFERENCE, **GROUPS),
    },
    "tiny_hanabi": {
        "ppo": _condition("ppo"),
        "dpo": _condition("dpo", **TREES),
        "kto": _condition("kto"),
        "kto, difference": _condition("kto", DIFFERENCE),
        "dmpo": _condition("dmpo", **GROUPS),
        "dmpo, difference": _condition("dmpo", DIFFERENCE, **GROUPS),
    },
}
COMMON: dict[str, Any] = {
    "threads": 1,
    "snapshot_every": 10,
    "episodes_kept": 0,
    "matchmaking": ALONE,
    "optimizer": {"learning_rate": 3e-3, "inner_steps": 4},
    "model": {"hidden_size": 64, "intermediate_size": 128, "vocabulary": 512},
    "evaluation": {"matches": 0, "anchors": [], "mixture": "uniform"},
    "board": {"time": 0.0},
}
GAMES: dict[str, dict[str, Any]] = {
    "kuhn_poker": {"iterations": 40, "games": {"kuhn_poker": {"matches": 256, "entropy": 0.005}}},
    "tiny_hanabi": {"iterations": 30, "games": {"tiny_hanabi": {"matches": 144, "entropy": 0.005}}},
}
BETS = {  # metrics below kuhn_poker/strategy/: how often one bets or calls
    "first/jack_bets/bet": "first bets J",
    "first/king_bets/bet": "first bets K",
    "first/queen_calls/bet": "first calls with Q",
    "second/jack_bets/bet": "second bets J",
    "second/queen_calls/bet": "second calls with Q",
}


def settings_of(game: str) -> dict[str, dict[str, Any]]:
    """Return the settings of each condition's runs in a game."""
    return {name: COMMON | GAMES[game] | changes for name, changes in CONDITIONS[game].items()}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's figures at its end: what its newest snapshot is worth, its entropy, and strategy in Kuhn poker."""
    run = open_run(run_dir)
    [game] = run.config.games
    last = run.iterations()[-1]
    found = {"entropy": last["main/entropy"]}
    if game == "kuhn_poker":
        strategy = {name: last[f"{game}/strategy/{name}"] for name in BETS}
        return (
            found
            | strategy
            | {
                "figure": last[f"{game}/exploitability"],
                "mixture": last[f"{game}/mixture_exploitability"],
            }
        )
    return found | {"figure": last[f"{game}/return"]}


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return a table for each game."""
    wanted = {(game, name): settings for game in GAMES for name, settings in settings_of(game).items()}
    labels = {key: "_".join(key).replace(", ", "_") for key in wanted}
    configs = {labels[key]: load_settings(tomli_w.dumps(settings)) for key, settings in wanted.items()}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    tables = [
        {
            "game": game,
            "figure": "exploitability of the newest snapshot" if poker else "joint return of at most 10",
            "less_is_better": poker,
            "columns": {"mixture": "of the mixture", "entropy": "entropy, nats", **BETS}
            if poker
            else {"entropy": "entropy, nats"},
            "conditions": [
                {"name": name, "runs": [figures[labels[game, name], seed] for seed in seeds]}
                for name in settings_of(game)
            ],
        }
        for game, poker in (("kuhn_poker", True), ("tiny_hanabi", False))
    ]
    return {"study": "whole_matches", "seeds_used": list(seeds), "tables": tables}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["whole_matches"], measure_study, table_lines)


if __name__ == "__main__":
    main()
