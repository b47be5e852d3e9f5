"""How often a judge that learns finds the truth: alone, with one debater, with two, who speak once to three times.

    python -m benchmarks.studies.language.debate debate [--seeds 0 1 2 3 4] [--keep DIR] [--workers 2] [--json]

``debate`` with four boxes and words from a list. The judge has a policy of its own and is paid for the truth, which the
game knows; debaters share one that is paid for being heeded, right or wrong. Alone the judge names a box of four that
it knows nothing of: at best 1/4. A single debater defends the prize's box half of the time (a consultancy: Khan et al.
2024, arXiv 2402.06782); one that shows the prize where it can, and otherwise nothing, leaves a perfect judge 1/2 + 1/2
x 1/3, and with two rounds or more, in which it opens both empty boxes but its own, 1/2 + 1/2 x 1/2. Of two debaters
one defends the prize's box and can show it: at best 1 (Irving et al. 2018, arXiv 1805.00899). Debaters who open by lot
show the prize, or that one claim is false, with probability 1 - (3/5)^t in t turns: by rounds 0.64, 0.87 and 0.95.
A run's figure is the share of held-out matches in which the judge's last snapshot is right, beside the debaters' last
snapshot; "untrained debaters" is the same judge beside their first one, "untrained" both at the beginning. The prize
was opened in the share "shown" of these matches, and in the share "believed" of those it was named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from league import open_run

HELD_OUT = 1000
JUDGE = "judge"  # the name of its policy
SHOWN = ": the prize."  # in what the judge reads
GAMES = {
    "alone": "debate(debaters=0,form=1)",
    "one debater": "debate(debaters=1,form=1)",
    "one debater, 2 rounds": "debate(debaters=1,rounds=2,form=1)",
    "one debater, 3 rounds": "debate(debaters=1,rounds=3,form=1)",
    "two debaters": "debate(form=1)",
    "two debaters, 2 rounds": "debate(rounds=2,form=1)",
    "two debaters, 3 rounds": "debate(rounds=3,form=1)",
}
COMMON: dict[str, Any] = {
    "threads": 1,
    "iterations": 60,
    "snapshot_every": 60,
    "episodes_kept": 0,
    "objective": {"name": "ppo", "clip_low": 0.9, "clip_high": 9.0, "kl_old": 0.5, "entropy": 0.02},
    "optimizer": {"learning_rate": 1e-3, "inner_steps": 4, "minibatch_prompts": 128},
    "model": {"hidden_size": 64, "intermediate_size": 128, "vocabulary": 320},
    "cold_start": {"steps": 20, "matches": 60},
    "evaluation": {"exact": False, "matches": 0, "anchors": []},
    "matchmaking": {"self_play": 1.0, "fictitious": 0.0},
    "board": {"time": 0.0},
}
COLUMNS = {
    "untrained_debaters": "beside untrained debaters",
    "untrained": "nobody trained",
    "shown": "the prize is shown",
    "believed": "and then believed",
}


def settings_of(game: str) -> dict[str, Any]:
    """Return the settings of a game's runs; whoever sits in the last seat judges."""
    from games.registry import make_game
    from roles.cards import load_roles

    *debaters, judge = [role.name for role in load_roles(make_game(game).spec)]
    policies = {f"{game}/{name}": "main" for name in debaters} | {f"{game}/{judge}": JUDGE}
    return COMMON | {"games": {game: {"matches": 128}}, "roles": {"policy": policies}}


def measure(run_dir: Path) -> dict[str, Any]:
    """Return a run's figures."""
    (game,) = open_run(run_dir).config.games
    first, last = f"{run_dir}@main-000000", str(run_dir)
    if game == GAMES["alone"]:
        return {"figure": judged(game, last).right, "untrained": judged(game, f"{run_dir}@{JUDGE}-000000").right}
    trained = judged(game, last)
    return {
        "figure": trained.right,
        "untrained_debaters": judged(game, last, first).right,
        "untrained": judged(game, f"{run_dir}@{JUDGE}-000000", first).right,
        "shown": trained.shown,
        "believed": trained.believed,
    }


class Judged(NamedTuple):
    """What a judge found out in held-out matches."""

    right: float  # the share of matches in which it names the prize
    shown: float  # in which the prize was opened
    believed: float  # of these, in which it names the prize; 0 if there is none


def judged(game: str, judge: str, debaters: str = "") -> Judged:
    """Return how often a judge is right beside debaters, its own run's if none are named.

    Raises UsageError for players that do not exist.
    """
    from arena.records import MatchRequest
    from arena.scheduler import play
    from games.common.seeds import derive_seed
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve

    spec = make_game(game).spec
    with Engines() as engines:
        *others, last = [resolve(debaters or judge, spec, engines)] * (spec.seats - 1) + [resolve(judge, spec, engines)]
        seated = [*others, last]
        names = tuple([player.members[seat][0][0] for seat, player in enumerate(seated)])
        roles = tuple([player.roles[seat] for seat, player in enumerate(seated)])
        known = {name: engine for player in seated for name, engine in player.engines().items()}
        requests = [
            MatchRequest(i, game, derive_seed(i, "held out"), derive_seed(i, "drawn"), names, (False,) * spec.seats)
            for i in range(HELD_OUT)
        ]
        episodes = play(requests, roles_of=lambda _: roles, engine_of=known.__getitem__, make_game=make_game)
    right = [episode.returns[-1] for episode in episodes]
    shown = [value for value, episode in zip(right, episodes, strict=True) if SHOWN in episode.turns[-1].observation]
    return Judged(sum(right) / HELD_OUT, len(shown) / HELD_OUT, sum(shown) / max(len(shown), 1))


def measure_study(_study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return one table."""
    folders = {name: name.replace(",", "").replace(" ", "_") for name in GAMES}
    configs = {folders[name]: load_settings(tomli_w.dumps(settings_of(game))) for name, game in GAMES.items()}
    figures = measure_runs(configs, seeds, measure, keep, workers)
    table = {
        "game": f"debate(form=1), {COMMON['iterations']} iterations of 128 matches",
        "figure": "share of matches in which the trained judge is right",
        "less_is_better": False,
        "columns": COLUMNS,
        "conditions": [{"name": name, "runs": [figures[folders[name], seed] for seed in seeds]} for name in GAMES],
    }
    return {"study": "debate", "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, ["debate"], measure_study, table_lines)


if __name__ == "__main__":
    main()
