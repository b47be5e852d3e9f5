"""How long a language model's exploitability takes in large games: from weights to the figure, or a measured part.

    python -m benchmarks.speed.large_models [--json]

As ``league exploitability hf:FOLDER --game GAME`` does it, without a stored table, by one thread: seconds are of the
processor, loading and the game's arrays included. In the largest games the first states alone are asked, for a minute
or so, and the others are taken to need as long each. Pocket models have
random weights. SmolLM2 is measured where it was fetched (``league models get smollm2-135m``).
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.speed.timing import in_a_process

GAMES = (  # the model, the game, and after how many seconds it is cut off; 0: it is not
    ("pocket", "liars_dice(dice_sides=6,numdice=1)", 0.0),
    ("pocket", "liars_dice(dice_sides=4,numdice=2)", 0.0),
    ("pocket", "liars_dice(dice_sides=10,numdice=1)", 0.0),
    ("pocket", "phantom_ttt", 60.0),
    ("smollm2-135m", "liars_dice(dice_sides=6,numdice=1)", 60.0),
)
SHOWN = 2000  # states whose prompts a pocket model's tokenizer is made from


class _Enough(Exception):
    """The time of a part is over."""


def measured(model: str, game: str, most: float) -> dict[str, Any]:
    """Return one row; ``most`` seconds are taken, or as many as it needs where that is 0."""
    import torch

    from arena.contexts import request_in
    from benchmarks.speed.large_games import _pocket
    from games.registry import make_game
    from league.population.evaluation import public_policy
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.theory.public.from_openspiel import large_game

    torch.set_num_threads(1)
    spec = make_game(game).spec
    begun = time.process_time()
    tree = large_game(game)
    assert tree is not None
    built = time.process_time() - begun
    asked = 0

    def tell(number: int) -> None:
        nonlocal asked
        asked = number
        print(model, game, number, f"{time.process_time() - begun:.1f} s", file=sys.stderr, flush=True)
        if most and time.process_time() - begun > most:
            raise _Enough

    with tempfile.TemporaryDirectory() as folder, Engines() as engines:
        named = Path(folder) / "pocket"
        if model == "pocket":
            roles = resolve("random", spec, engines).roles
            shown = itertools.islice(public_policy.some_positions(tree), SHOWN)
            _pocket([request_in(model, roles[s], match, random.Random(0)) for s, match in shown]).save(named)
        player = resolve(f"hf:{named if model == 'pocket' else model}", spec, engines)
        begun, values = time.process_time(), None
        try:
            with mock.patch.object(public_policy, "table_of", return_value=None):
                values = public_policy.public_values(player, tree, tell)
        except _Enough:
            pass
        seconds = time.process_time() - begun
    states = tree.information_states
    return {
        "model": model,
        "game": game,
        "states": states,
        "asked": asked,
        "seconds": built + seconds,
        "all_seconds": built + (seconds if values else seconds / asked * states),
        "exploitability": None if values is None else sum(values.best_responses) / 2.0,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def model_lines(result: dict[str, Any]) -> list[str]:
    """Return the table in Markdown."""
    lines = ["| model | game | states | asked | in | all of them in | exploitability | peak memory |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in result["rows"]:
        whole = row["exploitability"] is not None
        found = f"{row['exploitability']:.4f}" if whole else "–"
        all_in = _spoken(row["all_seconds"]) if whole else f"about {_spoken(row['all_seconds'])}"
        cells = [row["model"], f"`{row['game']}`", f"{row['states']:,}", f"{row['asked']:,}", f"{row['seconds']:.0f} s"]
        cells += [all_in, found, f"{row['peak_gb']:.1f} GB"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _spoken(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"


def main() -> None:
    """Measure and print."""
    from league.population.models.cache import stored_model

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs=3, metavar=("MODEL", "GAME", "SECONDS"), help="one row, in this process")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    if arguments.only:
        model, game, most = arguments.only
        print(json.dumps(measured(model, game, float(most))))
        return
    rows = []
    for model, game, most in GAMES:
        if model != "pocket" and not stored_model(model):
            continue
        rows.append(in_a_process("benchmarks.speed.large_models", "--only", model, game, str(most)))
    print(json.dumps({"models": {"rows": rows}}) if arguments.json else "\n".join(model_lines({"rows": rows})))


if __name__ == "__main__":
    main()
