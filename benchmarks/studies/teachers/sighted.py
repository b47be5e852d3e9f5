"""A teacher that sees the opponent's card: does its student become exploitable?

    python -m benchmarks.studies.teachers.sighted STUDY [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

One policy learns GAME and ``informed(GAME)``, in which both seats see both cards. In GAME it is taught by itself, shown
the other card (``teacher.player = "self"``, ``teacher.sees = ["hidden"]``), with a weight beside its policy gradient,
or not at all. All play the same matches. Exploitability is that of GAME, exact; Kuhn poker's equilibria bet a third as
often with the lowest card as with the highest, and at most a third of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines

if TYPE_CHECKING:
    from league import RunConfig

GAMES = {"sighted-kuhn": "kuhn_poker", "sighted-leduc": "leduc_poker"}
ITERATIONS = {"kuhn_poker": 120, "leduc_poker": 60}
MATCHES = 512  # of each of the two games in an iteration
COMMON = """
threads = 1
episodes_kept = 0
iterations = {iterations}
snapshot_every = {iterations}
games = {{ {game} = {{ matches = {matches} }}, "informed({game})" = {{ matches = {matches} }} }}
evaluation = {{ matches = 0, exact = false }}
model = {{ layers = 1, hidden_size = 64, intermediate_size = 128 }}
optimizer = {{ learning_rate = 2e-3, learning_rate_end = 2e-4, minibatch_prompts = 128 }}
matchmaking = {{ self_play = 1.0, fictitious = 0.0 }}
"""
OBJECTIVE = "clip_low = 0.9, clip_high = 9.0, kl_old = 2.0, entropy = 0.15, entropy_end = 0.02"
TEACHER = "teacher = {{ players = {{ {game} = 'self' }}, sees = ['hidden'] }}\n"
CONDITIONS = {  # the objective's settings beyond the common ones
    "no teacher": "",
    "weight 1": ", distill = 1.0",
    "weight 1, falling to 0.001": ", distill = 1.0, distill_end = 0.001",
}
COLUMNS = {
    "bluffs": "bets with the lowest card",
    "bets": "with the highest",
    "informed": "exploitability with open cards",
    "seconds": "seconds",
}


def configs_of(game: str) -> dict[str, RunConfig]:
    """Return the configurations that are compared in a game, by name."""
    common = COMMON.format(game=game, iterations=ITERATIONS[game], matches=MATCHES)
    common += TEACHER.format(game=game)
    return {
        f"{game}: {condition}": load_settings(f"{common}objective = {{ {OBJECTIVE}{weight} }}\n")
        for condition, weight in CONDITIONS.items()
    }


def measure(run_dir: Path) -> dict[str, Any]:
    """Return what a perfect opponent wins of a run's last snapshot, and in Kuhn poker how often it bets."""
    from games.registry import make_game
    from league import open_run
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.theory.exact.exploitability import exploitability

    game, informed = open_run(run_dir).config.games
    with Engines() as engines:
        table, open_cards = (
            resolve(str(run_dir), make_game(name).spec, engines).tabulate().table for name in (game, informed)
        )
    figures = {"figure": exploitability(table), "informed": exploitability(open_cards)}
    if game == "kuhn_poker":  # cards are 0 to 2, and p is a pass: nobody has bet yet
        for name, card in (("bluffs", 0), ("bets", 2)):
            rows = [table.probabilities[0, str(card)], table.probabilities[1, f"{card}p"]]
            figures[name] = sum(row[1] for row in rows) / len(rows)
    return figures


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the game's table."""
    game = GAMES[study]
    figures = measure_runs(configs_of(game), seeds, measure, keep, workers)
    table = {
        "game": game,
        "figure": "exploitability of the newest snapshot",
        "less_is_better": True,
        "places": 3,
        "columns": {key: label for key, label in COLUMNS.items() if all(key in run for run in figures.values())},
        "conditions": [
            {"name": name, "runs": [figures[f"{game}: {name}", seed] for seed in seeds]} for name in CONDITIONS
        ],
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(GAMES), measure_study, table_lines)


if __name__ == "__main__":
    main()
