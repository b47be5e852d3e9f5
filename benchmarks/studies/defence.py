"""What the exploiters of preset ``pocket-timescales`` do for a language model's main policy: exact losses, by share.

    python -m benchmarks.studies.defence timescales|equal_steps [--seeds 0 1 2] [--keep DIR] [--workers 2] [--json]

``two timescales`` is the preset: a fast exploiter takes half of the matches, and a slow main, one update while the
exploiter makes four, learns from the rest. ``plain`` has neither: all its matches are the main's, half of them against
itself and half against its past, and it learns from every batch. Both play equally many matches, with the same rates.
In the study ``equal_steps`` there is the exploiter too, but main makes as many updates as the plain one, and he is
faster by twice the rate and twice the steps of each update.
The loss at ε is what a perfect attacker wins, averaged over seats, who controls that share of his turns while the last
snapshot itself plays the others (``league lab redteam --attack control``); ``before`` is the snapshot that nothing was
learned in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from benchmarks.simulations.defence_tabular import SHARES, defence_lines, with_interval
from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study
from league import load_config, open_run

if TYPE_CHECKING:
    from league.config.run import RunConfig

GAMES = {"kuhn_poker": 120, "leduc_poker": 60}  # iterations
PRESET = "pocket-timescales"
PLAIN: dict[str, Any] = {  # what stands in place of the preset's exploiter
    "policies": {"main": {}},
    "matchmaking": {"self_play": 0.5, "fictitious": 0.5},
    "exploiters": {},
}

EQUAL_STEPS: dict[str, Any] = {
    "policies": {"main": {}, "probe": {"league_role": "main_exploiter", "learning_rate": 2e-3, "inner_steps": 8}},
}
STUDIES = {"timescales": ("plain", "two timescales"), "equal_steps": ("equal steps",)}  # their conditions


def configs_of(study: str, game: str) -> dict[str, RunConfig]:
    """Return the settings of a study's runs of a game by condition."""
    preset = load_config(PRESET)
    common = preset.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    [settings] = common["games"].values()
    common |= {"iterations": GAMES[game], "games": {game: settings}}
    common["evaluation"] = common["evaluation"] | {"exact": False, "matches": 0}
    conditions = {"plain": common | PLAIN, "two timescales": common, "equal steps": common | EQUAL_STEPS}
    return {f"{game}: {name}": load_settings(tomli_w.dumps(conditions[name])) for name in STUDIES[study]}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return what an attacker wins from a run's first and last main, by his share."""
    from games.registry import make_game
    from league.lab.attacks.curve import policy_curve
    from league.population.players.engines import Engines
    from league.population.players.player import resolve

    [game] = open_run(run_dir).config.games
    spec, losses = make_game(game).spec, {}
    with Engines() as engines:
        for name, player in (("before", f"{run_dir}@main-000000"), ("figure", str(run_dir))):
            main = resolve(player, spec, engines)
            table = main.tabulate().table
            losses[name] = [
                point.loss.mean for point in policy_curve(table, table, SHARES, "control", main.roles).points
            ]
    return losses


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return by game the losses of every seed and their means."""
    configs = {name: config for game in GAMES for name, config in configs_of(study, game).items()}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    games = []
    for game, iterations in GAMES.items():
        rows = {"before": [figures[f"{game}: {STUDIES[study][0]}", seed]["before"] for seed in seeds]}
        rows |= {name: [figures[f"{game}: {name}", seed]["figure"] for seed in seeds] for name in STUDIES[study]}
        curves = [{"main": name, **with_interval(losses)} for name, losses in rows.items()]
        length = f"{iterations} iterations of 1,024 matches"
        games.append({"game": game, "length": length, "shares": list(SHARES), "curves": curves})
    return {"defence": {"seeds": list(seeds), "games": games}}


def lines(result: Result) -> Iterator[str]:
    """Yield the tables."""
    yield from defence_lines(result["defence"])


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(STUDIES), measure_study, lines)


if __name__ == "__main__":
    main()
