"""The worth of credit rules and of shared policies at pocket scale: conditions with the same seeds side by side.

    python -m benchmarks.studies.credit.rules STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

Every condition of a study trains the same small model from nothing, on the same number of matches, with settings
that are equal but for what is compared. Batches are small on purpose: a baseline only reduces noise, and a large batch
has little. Figures are exact where a game's positions can be enumerated. With --keep, an interrupted measurement
continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.studies.runs import (
    Result,
    a_policy_per_role,
    load_settings,
    measure_runs,
    run_study,
    table_lines,
)
from league import RunConfig, open_run

HANABI = "hanabi(players=2,colors=1,ranks=3,hand_size=2,max_information_tokens=2,max_life_tokens=1)"
HEX = "hex(board_size=3)"
POLICY_PER_ROLE = "a policy for each role"  # in place of an override

COMMON = """
threads = 1
iterations = 120
snapshot_every = 120
episodes_kept = 0
model = { hidden_size = 64, intermediate_size = 128 }
cold_start.steps = 40
objective = { name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 2.0 }
optimizer = { learning_rate = 1e-3, learning_rate_end = 2e-4, inner_steps = 2, minibatch_prompts = 64 }
matchmaking = { self_play = 1.0, fictitious = 0.0 }
evaluation = { matches = 0, exact = false }
"""


class Game(NamedTuple):
    """One game of a study."""

    name: str
    label: str
    settings: str  # TOML, below games.NAME
    figure: str  # what is measured
    less_is_better: bool


class Condition(NamedTuple):
    """One way to train."""

    name: str
    overrides: tuple[str, ...]


class Study(NamedTuple):
    """Conditions to compare; the first is the reference of the others."""

    games: tuple[str, ...]
    conditions: tuple[Condition, ...]


COOPERATIVE = "matches = 64, entropy = 0.6, entropy_end = 0.02"  # tuned on tiny Hanabi; Hanabi itself is held out
GAMES = {
    game.name: game
    for game in (
        Game("kuhn_poker", "Kuhn poker", "matches = 64, entropy = 0.15, entropy_end = 0.04", "exploitability", True),
        Game(HEX, "Hex 3 × 3", "matches = 64, entropy = 0.1, entropy_end = 0.03", "exploitability", True),
        Game("tiny_hanabi", "tiny Hanabi", COOPERATIVE, "share of the optimum", False),
        Game(HANABI, "Hanabi, 1 colour × 3 ranks", COOPERATIVE, "share of 3 points", False),
    )
}
BEST = {"tiny_hanabi": 10.0, HANABI: 3.0}  # the best return; not every deal of Hanabi allows it

BASELINES = (  # in a zero-sum game where both seats train, one running baseline for all roles stays at 0
    Condition("no baseline (or rae with one for all roles)", ("credit.rule=reinforce",)),
    Condition("rae, a baseline for each role", ("credit.rule=rae",)),
    Condition("mars, one mean for all roles", ("credit.rule=mars", "credit.mars.baseline=game")),
    Condition("mars, a mean for each role", ("credit.rule=mars",)),
)
STUDIES = {
    "baselines": Study(("kuhn_poker", HEX), BASELINES),
    "levels": Study(
        (HANABI,),
        (
            Condition(
                "trajectory level, one mean",
                ("credit.rule=mars", "credit.mars.level=trajectory", "credit.mars.baseline=game"),
            ),
            Condition("trajectory level, a mean for each role", ("credit.rule=mars", "credit.mars.level=trajectory")),
            Condition("turn level, one mean", ("credit.rule=mars", "credit.mars.baseline=game")),
            Condition("turn level, a mean for each role", ("credit.rule=mars",)),
        ),
    ),
    "policies": Study(
        ("kuhn_poker", HEX, "tiny_hanabi"),
        (
            Condition("one policy for both roles", ("credit.rule=rae",)),
            Condition("a policy for each role", ("credit.rule=rae", POLICY_PER_ROLE)),
        ),
    ),
}


def settings_of(game: str, condition: Condition) -> RunConfig:
    """Return the settings of a condition in a game."""
    toml = f'{COMMON}games."{game}" = {{ {GAMES[game].settings} }}\n'
    overrides = [override for override in condition.overrides if override != POLICY_PER_ROLE]
    if POLICY_PER_ROLE in condition.overrides:
        overrides += a_policy_per_role(load_settings(toml), game)
    return load_settings(toml, overrides)


def measure(run_dir: Path) -> dict[str, float]:
    """Return the figures of a finished run."""
    [game] = open_run(run_dir).config.games
    return {"figure": strength(GAMES[game], run_dir), **noise(run_dir)}


def strength(game: Game, run_dir: Path) -> float:
    """Return the figure of a finished run: exact but for Hanabi, which is the mean of 512 matches with itself."""
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.theory.exact.exploitability import exploitability, head_to_head

    spec = make_game(game.name).spec
    player = resolve(str(run_dir), spec, Engines())
    if game.name == HANABI:
        return _mean_return(player, 512) / BEST[HANABI]
    table = player.tabulate(0, 20_000).table
    return exploitability(table) if game.less_is_better else head_to_head([table] * 2)[0] / BEST[game.name]


def _mean_return(player: Any, matches: int) -> float:
    from arena.records import MatchRequest
    from arena.scheduler import play
    from games.registry import make_game

    names = tuple(members[0][0] for members in player.members)
    requests = [MatchRequest(i, player.spec.name, i, i, names, (False,) * len(names)) for i in range(matches)]
    episodes = play(
        requests,
        roles_of=lambda _: player.roles,
        engine_of=lambda _: player.engine,
        make_game=make_game,
        in_flight=matches,
    )
    return fmean(episode.returns[0] for episode in episodes)


def noise(run_dir: Path) -> dict[str, float]:
    """Return means over the run: a role's |mean advantage| in an iteration, its spread, and the gradient's norm."""
    from league.training.board.metrics_log import read_metrics

    figures: dict[str, list[float]] = {"offset": [], "spread": [], "grad_norm": []}
    for line in read_metrics(run_dir):
        for name, value in line.items():
            if "/advantage/" in name:
                figures["offset" if name.endswith("/mean") else "spread"].append(abs(value))
            elif name.endswith("/grad_norm"):
                figures["grad_norm"].append(value)
    return {name: fmean(values) for name, values in figures.items()}


def measure_study(name: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs of a study that are not in ``keep`` yet; return the figures by game and condition."""
    study = STUDIES[name]
    configs = {_label(game, c): settings_of(game, c) for game in study.games for c in study.conditions}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    tables = [
        {
            "game": GAMES[game].label,
            "figure": GAMES[game].figure,
            "less_is_better": GAMES[game].less_is_better,
            "conditions": [
                {"name": c.name, "runs": [figures[_label(game, c), seed] for seed in seeds]} for c in study.conditions
            ],
        }
        for game in study.games
    ]
    return {"study": name, "seeds_used": list(seeds), "tables": tables}


def _label(game: str, condition: Condition) -> str:
    return f"{GAMES[game].label}, {condition.name}"


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(STUDIES), measure_study, table_lines)


if __name__ == "__main__":
    main()
