"""Public goods with and without talk, by advantage alignment and by the same credit without it.

    python -m benchmarks.studies.cooperation.public_goods public_goods [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2]
        [--json]

Two seats, factor 1.5, so that a token brings its giver 0.75 and both together 1.5; five rounds of two tokens; a seat is
shown the last round, not how many have been played. With talk both say, before each round, how much they will give.
"Aligned" is advantage alignment with the settings of the preset ``ipd``, "plain" the same with beta 0: an advantage is
then the reward to go less its mean over the matches at that turn. Every run trains one policy from nothing. Its figures
are of the last snapshot: the share of its tokens that it gives, by round, with itself and beside ``scripted:poor``, who
promises all and gives nothing, and the share of its promises that it keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from games.talk.public_goods import GIVE, promised
from league import open_run

if TYPE_CHECKING:
    from arena.records import Episode

ROUNDS, TOKENS, MATCHES = 5, 2, 400
GAMES = {  # by what is said
    "silent": f"public_goods(seats=2,tokens={TOKENS},multiplier=150,talk=0,recall=1)",
    "promises": f"public_goods(seats=2,tokens={TOKENS},multiplier=150,talk=2,recall=1)",
}
WEIGHTS = {"plain": 0.0, "aligned": 40.0}
COMMON: dict[str, Any] = {
    "threads": 1,
    "iterations": 120,
    "snapshot_every": 10,
    "episodes_kept": 0,
    "objective": {"name": "ppo", "entropy": 0.5, "entropy_end": 0.002},
    "optimizer": {"learning_rate": 5e-4, "inner_steps": 2},
    "matchmaking": {"self_play": 0.5, "fictitious": 0.5, "opponents": 1, "group_size": 128},
    "model": {"hidden_size": 64, "intermediate_size": 128, "vocabulary": 512},
    "evaluation": {"exact": False, "matches": 0},
}
COLUMNS = {
    **{f"round_{number}": f"round {number}" for number in range(1, ROUNDS + 1)},
    "beside_poor": "beside `scripted:poor`, from round 2 on",
    "kept": "promises kept",
    "return": "mean return",
}


def settings_of(game: str, rule: str) -> dict[str, Any]:
    """Return the settings of a condition's runs."""
    credit = {"rule": "advantage_alignment", "advantage_alignment": {"gamma": 0.85, "weight": WEIGHTS[rule]}}
    return COMMON | {"games": {GAMES[game]: {"matches": 512}}, "credit": credit}


def gifts(episode: Episode, seat: int) -> list[int]:
    """Return the tokens that a seat gave, by round."""
    actions = [turn.action or "" for turn in episode.turns if turn.seat == seat]
    return [int(action.removeprefix(GIVE)) for action in actions if action.startswith(GIVE)]


def kept(episode: Episode, seat: int) -> list[bool]:
    """Return for each round whether a seat gave no less than it had promised; [] where nothing was said."""
    said = [promised(turn.action or "") for turn in episode.turns if turn.seat == seat]
    promises = [number for number in said if number is not None]
    return [given >= promise for given, promise in zip(gifts(episode, seat), promises, strict=False)]


def shares_given(episodes: Sequence[Episode], player: str) -> list[float]:
    """Return the share of its tokens that a player gave, by round, over all its seats."""
    seats = [(e, seat) for e in episodes for seat, name in enumerate(e.request.players) if name == player]
    return [fmean(column) / TOKENS for column in zip(*(gifts(e, seat) for e, seat in seats), strict=True)]


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's figures."""
    from games.registry import make_game
    from league.population.evaluation.head_to_head import compare
    from league.population.players.engines import Engines
    from league.population.players.player import resolve

    [game] = open_run(run_dir).config.games
    spec, engines = make_game(game).spec, Engines()
    learner, poor = (resolve(text, spec, engines) for text in (str(run_dir), "scripted:poor"))
    ((identity, _),) = learner.members[0]
    with_itself = compare((learner, learner), MATCHES, seed=0).episodes
    shares = shares_given(with_itself, identity)
    beside_poor = shares_given(compare((learner, poor), MATCHES, seed=0).episodes, identity)
    honest = [share for episode in with_itself for seat in (0, 1) for share in kept(episode, seat)]
    return {
        "figure": fmean(shares),
        **{f"round_{number}": share for number, share in enumerate(shares, 1)},
        "beside_poor": fmean(beside_poor[1:]),
        "return": fmean([value for episode in with_itself for value in episode.returns]),
        **({"kept": fmean(honest)} if honest else {}),
    }


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return a table for each game, with and without talk."""
    conditions = [(game, rule) for game in GAMES for rule in WEIGHTS]
    configs = {f"{game}_{rule}": load_settings(tomli_w.dumps(settings_of(game, rule))) for game, rule in conditions}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    tables = []
    for game, name in GAMES.items():
        columns = {key: head for key, head in COLUMNS.items() if key != "kept" or game == "promises"}
        keys = ("figure", *columns, "seconds")
        runs = {rule: [figures[f"{game}_{rule}", seed] for seed in seeds] for rule in WEIGHTS}
        tables.append(
            {
                "game": f"{game}: {name}",
                "figure": "share of tokens given with itself",
                "less_is_better": False,
                "columns": columns,
                "conditions": [
                    {"name": rule, "runs": [{key: run[key] for key in keys} for run in runs[rule]]} for rule in WEIGHTS
                ],
            }
        )
    return {"study": "public_goods", "seeds_used": list(seeds), "tables": tables}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["public_goods"], measure_study, table_lines)


if __name__ == "__main__":
    main()
