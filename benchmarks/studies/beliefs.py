"""Whether villagers of ``hidden_roles`` find the wolf more often where they learn to listen, to speak, or both.

    python -m benchmarks.studies.beliefs beliefs [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Five seats, one day, of 100 clues 60 certain, words from a list. The wolf is ``scripted:good``; the four villagers share
one policy, trained from nothing. "RL alone" is asked what it believes, and nothing comes of it; "listening" adds the
log-probability of the truth at probes to its loss, "speaking" pays what it says for the change in the others' belief in
the truth (Sarkar et al. 2025, arXiv 2502.06060). A run's figures are means over its last iterations' matches: the
villagers' share of wins, their belief in the truth before anybody speaks and when all have spoken, and the bits that a
villager's speech tells each other one. What Bayesians earn and believe in their place stands beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from league import open_run

GAME, SEATS = "hidden_roles(days=1,sight=60,form=1)", 5
VILLAGERS = tuple(f"villager_{number}" for number in range(1, SEATS))
LAST = 10  # iterations whose matches are measured
BAYESIANS = 500  # matches of scripted players in the villagers' place
LISTENING, SPEAKING = {"weight": 0.3}, {"weight": 1.0, "weight_end": 0.1}
CONDITIONS: dict[str, dict[str, Any]] = {
    "RL alone": {},
    "listening": {"listening": LISTENING},
    "speaking": {"speaking": SPEAKING},
    "both": {"listening": LISTENING, "speaking": SPEAKING},
}
COMMON: dict[str, Any] = {
    "threads": 1,
    "iterations": 60,
    "snapshot_every": 60,
    "episodes_kept": 0,
    "games": {GAME: {"matches": 64}},
    "roles": {"player": {f"{GAME}/wolf": "scripted:good"}},
    "objective": {"name": "ppo", "entropy": 0.05, "entropy_end": 0.005},
    "optimizer": {"learning_rate": 1e-3, "inner_steps": 2},
    "model": {"hidden_size": 64, "intermediate_size": 128, "vocabulary": 512},
    "cold_start": {"steps": 20, "matches": 60},
    "matchmaking": {"self_play": 1.0, "fictitious": 0.0},
    "evaluation": {"exact": False, "matches": 0, "anchors": []},
    "board": {"time": 0.0},
}
COLUMNS = {"before": "belief in the truth at first", "heard": "when all have spoken", "bits": "bits of a speech"}


def settings_of(condition: str) -> dict[str, Any]:
    """Return the settings of a condition's runs."""
    return COMMON | {"beliefs": {"ask": True, **CONDITIONS[condition]}}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's figures: means over its last iterations and the villagers."""
    lines = open_run(run_dir).iterations()[-LAST:]

    def mean(*names: str) -> float:
        return fmean([line[f"{GAME}/{name}"] for line in lines for name in names])

    return {
        "figure": mean(*(f"score/{role}" for role in VILLAGERS)),
        "before": mean(*(f"belief/{role}/0" for role in VILLAGERS)),
        "heard": mean(*(f"belief/{role}/{SEATS}" for role in VILLAGERS)),
        "bits": mean(*(f"information/{role}" for role in VILLAGERS)),
    }


def bayesians(seed: int) -> dict[str, float]:
    """Return the figures of Bayesian villagers beside the same wolf."""
    from arena.records import MatchRequest
    from arena.samplers.scripted import Script
    from arena.scheduler import play
    from games.common.seeds import derive_seed
    from games.registry import make_game
    from league.training.board.observers.beliefs import belief_metrics
    from roles.cards import load_roles

    roles = load_roles(make_game(GAME).spec, probes=True)
    requests = [
        MatchRequest(
            index,
            GAME,
            derive_seed(seed, "held out", index),
            derive_seed(seed, "drawn", index),
            ("good",) * SEATS,
            (False,) * SEATS,
        )
        for index in range(BAYESIANS)
    ]
    episodes = play(requests, roles_of=lambda _: roles, engine_of=lambda _: Script("good"), make_game=make_game)
    found = belief_metrics(episodes, {GAME: roles})
    return {
        "figure": fmean([(1.0 + value) / 2 for episode in episodes for value in episode.returns[1:]]),
        "before": fmean([found[f"{GAME}/belief/{role}/0"] for role in VILLAGERS]),
        "heard": fmean([found[f"{GAME}/belief/{role}/{SEATS}"] for role in VILLAGERS]),
        "bits": fmean([found[f"{GAME}/information/{role}"] for role in VILLAGERS]),
    }


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return one table."""
    configs = {name.replace(" ", "_"): load_settings(tomli_w.dumps(settings_of(name))) for name in CONDITIONS}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    conditions = [
        {"name": name, "runs": [figures[name.replace(" ", "_"), seed] for seed in seeds]} for name in CONDITIONS
    ]
    conditions.append({"name": "Bayesians", "runs": [bayesians(seed) for seed in seeds]})
    table = {
        "game": f"{GAME} beside scripted:good",
        "figure": "the villagers' share of wins",
        "less_is_better": False,
        "columns": COLUMNS,
        "conditions": conditions,
    }
    return {"study": "beliefs", "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["beliefs"], measure_study, table_lines)


if __name__ == "__main__":
    main()
