"""Retries: success by attempt where the earlier attempts are shown, hidden, or reflected upon.

    python -m benchmarks.studies.language.retries STUDY [--seeds 0 1 2] [--keep DIR] [--workers 1] [--json]

A pocket model plays ``retried(GAME)``, three attempts at one deal, paid by the first success. In ``retries-sums`` it
learns sums in base 3 from nothing; in ``retries-find_number`` it continues from a model that has seen solutions. Its
card shows nothing of the earlier attempts, the last one, or the last one and a text of one of four words that it writes
before each new attempt, trained by the attempts that follow. Who forgets what it tried solves attempt k with the same
probability p as the first: by then 1 − (1 − p)^k.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import tomli_w

from arena.records import Episode
from arena.submatches import play_again
from benchmarks.studies.runs import Result, load_settings, measure_runs, run_study, table_lines
from benchmarks.studies.tasks.settings import COMMON, CONTINUED, imitate
from games.common.files import atomic_write
from league import make_game, match, open_run
from roles.cards import load_roles

PROMPT = "{earlier}\n{notes}\n{observation}\nLegal: {legal}"
WINDOW = {"rule": "window", "entries": 1}
REFLECTION = {"rule": "reflection", "choices": ["higher", "lower", "otherwise", "again"]}
CONDITIONS: dict[str, dict[str, Any]] = {
    "nothing shown": {"earlier": {"rule": "window", "entries": 0}},
    "last attempt shown": {"earlier": WINDOW},
    "and a reflection": {"earlier": WINDOW, "notes": REFLECTION},
}
GAMES = {"retries-sums": "sums(digits=2,base=3)", "retries-find_number": "find_number"}
ATTEMPTS, MATCHES = 3, 600
RUN = {"iterations": 60, "snapshot_every": 60, "alarms": {"stop": []}}


def retried(study: str) -> str:
    """Return the game of a study."""
    return f"retried({GAMES[study]})"


def settings(study: str, name: str, keep: Path) -> dict[str, Any]:
    """Return the settings of a condition's runs, whose card is written to ``keep``."""
    game, slots = retried(study), CONDITIONS[name]
    role, *_ = load_roles(make_game(game).spec)
    lines = [line for line in PROMPT.split("\n") if line[:1] != "{" or line.strip("{}") in (*slots, "observation")]
    prompt = "\n".join([line for line in lines if not (make_game(game).spec.free_text and "{legal}" in line)])
    table = {"name": role.name, "seat": 0, "system": role.system, "prompt": prompt, "slots": slots}
    folder = keep / "cards" / name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / "card.toml", tomli_w.dumps({"game": game, "role": [table]}))
    own = {"games": {game: {"matches": 64}}, "roles": {"cards": str(folder.resolve())}}
    if study == "retries-find_number":
        own |= CONTINUED | {"model": {"source": str(imitate(GAMES[study], keep))}}
    return COMMON | own | RUN


def measure(run_dir: Path) -> dict[str, float]:
    """Return how often a run's last snapshot has succeeded by each attempt, on deals that it has not seen."""
    [game] = open_run(run_dir).config.games
    seed = open_run(run_dir).config.seed
    played = match(run_dir, "random", game=game, matches=2 * MATCHES, seed=1000 + seed).episodes
    own = [episode for episode in played if episode.request.players[0] != "random"]
    by = [fmean(float(episode.returns[0] == 1.0 and _used(episode) <= k) for episode in own) for k in (1, 2, 3)]
    forgetful = 1.0 - (1.0 - by[0]) ** ATTEMPTS
    return {"figure": by[2], "first": by[0], "second": by[1], "forgetful": forgetful, "gained": by[2] - forgetful}


def _used(episode: Episode) -> int:
    """Return how many attempts a match took."""
    game = make_game(episode.request.game)
    play_again(game, episode)
    found = re.search(r"Attempt (\d+) of", game.observe(0))
    assert found is not None, "a match of attempts counts them"
    return int(found[1])


def measure_study(study: str, seeds: Sequence[int], workers: int, keep: Path) -> Result:
    """Measure all runs that are not in ``keep`` yet; return the table."""
    configs = {name: load_settings(tomli_w.dumps(settings(study, name, keep))) for name in CONDITIONS}
    figures = measure_runs(configs, seeds, measure, keep / "runs", workers)
    table = {
        "game": f"{retried(study)}, {RUN['iterations']} iterations of 64 matches",
        "figure": "solved within three attempts",
        "less_is_better": False,
        "places": 3,
        "columns": {
            "first": "at the first",
            "second": "within two",
            "forgetful": "1 − (1 − p)³",
            "gained": "gained by what is shown",
        },
        "conditions": [{"name": name, "runs": [figures[name, seed] for seed in seeds]} for name in configs],
    }
    return {"study": study, "seeds_used": list(seeds), "tables": [table]}


def main() -> None:
    """Measure and print."""
    run_study(__doc__, list(GAMES), measure_study, table_lines)


if __name__ == "__main__":
    main()
