"""What a player earns with strangers: after self-play, beside partners who grow, and beside partners who stand still.

    python -m benchmarks.studies.cooperation.strangers strangers [--seeds 0 1 2 3 4] [--keep DIR] [--json]

Nine rounds of OpenSpiel's `matrix_coordination`: both choose left or right at once, and a round in which they choose
alike pays 1; both see all rounds so far. A pocket model learns in as many matches with itself; with five partners who
learn beside it, each alone, at all stages of their training (a growing population: fictitious co-play, arXiv
2110.08176; arXiv 2110.14241); or with the last snapshots of these same partners, which never change (a static one).
What makes the difference: growing partners of whom only the newest snapshots are met, and static ones at four stages.
Then it meets strangers: the sixth partner of each seed's growing run, whom nobody has met, and eight scripted
conventions (`benchmarks.studies.cooperation.conventions`), beside the exact Bayesian of these. A turn's return is
what that round pays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.studies.cooperation.conventions import CONVENTIONS
from benchmarks.studies.runs import Result, load_settings, run_study, sweep, table_lines
from games.common import plugins
from league import RunConfig, make_game
from league.lab.comparisons.adaptation import ROUNDS, AdaptationMatches, adaptation
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve

if TYPE_CHECKING:
    from arena.records import Episode

PLUGIN = "benchmarks.studies.cooperation.conventions"
LENGTH = 9
GAME = f"repeated_game(stage_game=matrix_coordination(),num_repetitions={LENGTH},recall={LENGTH})"
PARTNERS, STRANGER = ("ann", "bob", "cid", "dan", "fay"), "eve"
ITERATIONS = 40
OWN, EACH = 96, 16  # matches an iteration of main, and of each partner who learns
ALL = OWN + EACH * (len(PARTNERS) + 1)
MATCHES = 40  # with each stranger, in both seats
COMMON = f"""
threads = 1
iterations = {ITERATIONS}
episodes_kept = 0
board.time = 0.0
roles.wording = "brief"
objective = {{ name = "ppo", clip_low = 0.9, clip_high = 9.0, kl_old = 0.2 }}
optimizer = {{ learning_rate = 2e-3, learning_rate_end = 2e-4, inner_steps = 4, minibatch_prompts = 128 }}
model = {{ hidden_size = 64, intermediate_size = 128, vocabulary = 512 }}
evaluation = {{ matches = 0, anchors = [], exact = false }}
snapshot_every = 5
"""
PAYS = 'games."{game}" = {{ matches = {matches}, entropy = 0.1, entropy_end = 0.01 }}\n'
WITH_PARTNERS = "matchmaking = { self_play = 0.0, fictitious = 0.0, partners = 1.0, opponents = 5 }\n"
SELF_PLAY, GROWING, STATIC, BAYES = "self-play", "growing partners", "static partners", "exact Bayesian of the eight"
NEWEST, STAGES = "growing partners, the newest alone", "static partners at four stages"
FOUR_STAGES = range(ITERATIONS // 4, ITERATIONS + 1, ITERATIONS // 4)
LEARNED, SCRIPTED = "five learned strangers, the sixth partner of each seed", "eight conventions"
MET = "its seed's five partners, whom both populations have met"
COLUMNS = {str(number): f"after {number}" for number in ROUNDS} | {"changes": "after a miss it changes"}


def grown() -> dict[str, RunConfig]:
    """Return the configurations of the runs in self-play, and beside partners who learn."""
    by_itself = "matchmaking = { self_play = 1.0, fictitious = 0.0 }\n"
    partners = "".join(f'{name} = {{ league_role = "partner" }}\n' for name in PARTNERS)
    partners += f'{STRANGER} = {{ league_role = "partner", held_out = true }}\n'
    beside = f"exploiters.share = {(EACH + 0.5) / ALL}\n[policies]\n{partners}"
    growing = COMMON + PAYS.format(game=GAME, matches=ALL) + WITH_PARTNERS + beside
    return {
        SELF_PLAY: load_settings(COMMON + PAYS.format(game=GAME, matches=OWN) + by_itself),
        GROWING: load_settings(growing),
        NEWEST: load_settings(growing, ("matchmaking.keep=1",)),
    }


def static(growing: Path, stages: Sequence[int] = (ITERATIONS,)) -> RunConfig:
    """Return the configuration of a run beside snapshots of a run's partners, of these iterations, who never change."""
    partners = "".join(
        f'{name}{stage} = {{ league_role = "partner", frozen = true, model = {{ source = "{folder}" }} }}\n'
        for name in PARTNERS
        for stage in stages
        for folder in [growing.resolve() / "population" / f"{name}-{stage:06d}"]
    )
    return load_settings(COMMON + PAYS.format(game=GAME, matches=OWN) + WITH_PARTNERS + "[policies]\n" + partners)


def changes_after_a_miss(episode: Episode, seat: int) -> list[bool]:
    """Return, for each round but the last in which the two chose differently, whether the seat then chooses another."""
    own, other = ([turn.action for turn in episode.turns if turn.seat == one] for one in (seat, 1 - seat))
    return [after != before for (before, after), seen in zip(pairwise(own), other[:-1], strict=True) if before != seen]


def earned(player: Player, strangers: Sequence[Player], seed: int) -> dict[str, float]:
    """Return what a player's rounds pay with strangers, all rounds and after so many; and what it does after a miss."""
    by_turn: dict[str, list[float]] = {str(number): [] for number in ROUNDS}
    whole, changed, ids = list[float](), list[bool](), set(player.engines())

    def watch(episode: Episode) -> None:
        for seat, who in enumerate(episode.request.players):
            changed.extend(changes_after_a_miss(episode, seat) if who in ids else [])

    for number, stranger in enumerate(strangers):
        how = AdaptationMatches(ROUNDS, MATCHES, 1000 * seed + number, True, watch)
        for row in adaptation(player, stranger, how):
            if row.rounds is None:
                whole.append(row.earned.mean / LENGTH)
            else:
                by_turn[str(row.rounds)].append(row.earned.mean)
    figures = {name: fmean(paid) for name, paid in by_turn.items()}
    return {"figure": fmean(whole), **figures, "changes": fmean(changed) if changed else 0.0}


def measure(mains: Mapping[str, Sequence[Path]], growing: Sequence[Path], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return a table for each kind of strangers, of runs by condition and the Bayesian."""
    plugins.allow([PLUGIN])
    spec, tables = make_game(GAME).spec, []
    kinds = {  # the strangers of each seed
        LEARNED: [[f"{run}@{STRANGER}-{ITERATIONS:06d}" for run in growing]] * len(seeds),
        SCRIPTED: [[f"convention:{name}" for name in CONVENTIONS]] * len(seeds),
        MET: [[f"{run}@{name}-{ITERATIONS:06d}" for name in PARTNERS] for run in growing],
    }
    who = {name: [f"{run}@main-{ITERATIONS:06d}" for run in runs] for name, runs in mains.items()}
    with Engines() as engines:
        for kind, names_of in kinds.items():
            strangers = [[resolve(name, spec, engines) for name in names] for names in names_of]
            conditions = [
                {"name": name, "runs": [earned(resolve(text, spec, engines), met, seed) for text, met, seed in found]}
                for name, texts in (who | {BAYES: ["foresees"] * len(seeds)}).items()
                for found in [list(zip(texts, strangers, seeds, strict=True))]
            ]
            tables.append(
                {
                    "game": f"repeated matrix_coordination with {kind}",
                    "figure": "mean return a round",
                    "less_is_better": False,
                    "places": 3,
                    "columns": COLUMNS,
                    "conditions": conditions,
                }
            )
    return tables


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Train all runs that are not in ``keep`` yet and measure them; return three tables."""
    configs = grown()
    runs = sweep(configs, seeds, keep / "grown", workers=workers)
    mains = {name: [Path(runs[name, seed].run.path) for seed in seeds] for name in configs} | {STATIC: [], STAGES: []}
    growing = mains[GROWING]
    for seed, its in zip(seeds, growing, strict=True):
        configs = {STATIC: static(its), STAGES: static(its, FOUR_STAGES)}
        swept = sweep(configs, [seed], keep / f"static-{seed}", workers=workers)
        for name in configs:
            mains[name].append(Path(swept[name, seed].run.path))
    return {"study": study, "seeds_used": list(seeds), "tables": measure(mains, growing, seeds)}


def main() -> None:
    """Train, measure and print."""
    run_study(__doc__, ["strangers"], measure_study, table_lines)


if __name__ == "__main__":
    main()
