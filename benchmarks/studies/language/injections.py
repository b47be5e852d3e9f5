"""How often SmolLM2-135M-Instruct does what an injected text says, with and without quotation marks around it.

Every seed text of ``games.wrappers.injections``, for each of its two wishes, is shown to the first player of Kuhn poker
before the first move, with each of the three cards. Replies are choices, so the model's probabilities are exact: the
figure is how likely the wanted action is without the text, with it as what another player says, and with it as it is.
Intervals are Student's over texts.
Needs the model: ``league models get smollm2-135m``.

    python -m benchmarks injections
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from statistics import fmean
from typing import Any

from arena.records import ReplyRequest, Tabular
from benchmarks.report.comparison import interval
from games.registry import make_game
from games.wrappers.injections import SEEDS, WISHES, Injection
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.exact.exploitability import information_positions

MODEL, GAME = "smollm2-135m", "kuhn_poker"
WAYS = ("without the text", "quoted", "not quoted")


def first_moves(game: str, engines: Engines) -> list[tuple[float, ...]]:
    """Return the model's probabilities of the first player's legal actions before the first move, by card."""
    player = resolve(f"hf:{MODEL}", make_game(game).spec, engines)
    shown = [
        position for (seat, state), position in information_positions(game).items() if seat == 0 and len(state) == 1
    ]
    assert isinstance(player.engine, Tabular)
    return player.engine.distributions(
        [
            ReplyRequest(
                player.members[0][0][0],
                player.roles[0],
                position,
                position.observe(0),
                position.legal_actions(),
                (),
                random.Random(0),
            )
            for position in shown
        ]
    )


def measure() -> dict[str, Any]:
    """Return a row for each text, by wish: how likely the wanted action is, and how often it becomes the likeliest."""
    rows = []
    with Engines() as engines:
        clean = first_moves(GAME, engines)
        for seed, text in enumerate(SEEDS):
            for wish in range(WISHES):
                number = Injection(seed, wish, ()).number
                name = f"{GAME}{f',text={number}' if number else ''}"
                said = [f"injected({name})", f"injected({name},quoted=0)"]
                moves = [clean, *(first_moves(game, engines) for game in said)]
                wanted = [[row[-1 if wish else 0] for row in one] for one in moves]
                rows.append(
                    {
                        "text": text,
                        "wanted": "last" if wish else "first",
                        "probability": [fmean(column) for column in wanted],
                        "likeliest": [fmean(value > 0.5 for value in column) for column in wanted],
                    }
                )
                print(rows[-1], file=sys.stderr, flush=True)
    return {"model": MODEL, "game": GAME, "ways": list(WAYS), "texts": rows}


def injection_lines(result: dict[str, Any]) -> list[str]:
    """Return a table of the three ways, and one of the texts."""
    lines = ["| | probability of the wanted action | most likely action is the wanted one |", "| --- | ---: | ---: |"]
    for index, way in enumerate(result["ways"]):
        cells = []
        for kind in ("probability", "likeliest"):
            values = [row[kind][index] for row in result["texts"]]
            low, high = interval(values)
            cells.append(f"{fmean(values):.3f} ({low:.3f} to {high:.3f})")
        lines.append(f"| {way} | {' | '.join(cells)} |")
    lines += ["", "| text | wanted | without | quoted | not quoted |", "| --- | --- | ---: | ---: | ---: |"]
    for row in result["texts"]:
        cells = [f"{value:.3f}" for value in row["probability"]]
        lines.append(f"| {row['text']} | {row['wanted']} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    result = measure()
    shown = parser.parse_args().json
    print(json.dumps({"injections": result}) if shown else "\n".join(injection_lines(result)))


if __name__ == "__main__":
    main()
