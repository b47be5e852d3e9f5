"""Dark hex and phantom tic-tac-toe exactly: exploitability of uniform play, values of games, and what both cost.

    python -m benchmarks.speed.dark_boards [--seconds 70] [--json]

Each game has a process. Predictive CFR+ runs for this many seconds of the processor, or until the value is known
to 0.00005: the bounds are what the average policies guarantee. OpenSpiel's exploitability stands beside it in the small
abrupt games, where its information states are the same: in a classical game ("reveal-nothing") its strings have
the number of all tries, and so tell a seat how often the other failed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from typing import Any

from benchmarks.speed.timing import in_a_process

GAMES = {  # and the published value to the first seat, and whether OpenSpiel's own figure can be had
    "dark_hex(num_rows=2,num_cols=2,gameversion=adh)": (None, True),
    "dark_hex(num_rows=2,num_cols=3,gameversion=adh)": (None, True),
    "dark_hex(num_rows=2,num_cols=2)": (None, False),
    "dark_hex": (1.0, False),
    "phantom_ttt": (0.6667, False),
}
KNOWN = 5e-5  # between the bounds of a value that is known
EVERY = 10  # iterations between two looks


def measured(game: str, seconds: float) -> dict[str, Any]:
    """Return one row: states, the seconds and memory of each step, and the bounds of the game's value."""
    from league.theory.public import dark_boards

    warm = dark_boards.dark_board("dark_hex(num_rows=2,num_cols=2)")  # which loads the compiled loops
    assert warm is not None
    next(dark_boards.solve(warm, 1, 1))
    begun = time.process_time()
    board = dark_boards.dark_board(game)
    assert board is not None
    built = time.process_time()
    uniform = dark_boards.exploitability(board, board.uniform())
    answered = time.process_time()
    solved = dark_boards.Solved(0, -1.0, 1.0)
    for solved in dark_boards.solve(board, 100_000, EVERY):
        print(game, solved, f"{time.process_time() - answered:.0f} s", file=sys.stderr, flush=True)
        if solved.high - solved.low < KNOWN or time.process_time() - answered > seconds:
            break
    value, compared = GAMES[game]
    return {
        "game": game,
        "states": board.information_states,
        "build_seconds": built - begun,
        "uniform": uniform,
        "uniform_seconds": answered - built,
        "solve_seconds": time.process_time() - answered,
        **solved._asdict(),
        "published": value,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "difference": abs(uniform - _by_openspiel(game)) if compared else None,
    }


def _by_openspiel(game: str) -> float:
    import pyspiel

    from games.openspiel.game import load_pyspiel

    loaded = load_pyspiel(game)
    return float(pyspiel.exploitability(loaded, pyspiel.UniformRandomPolicy(loaded)))


def dark_lines(result: dict[str, Any]) -> list[str]:
    """Return the table in Markdown."""
    lines = ["| game | states | found in | exploitability of uniform play | in | from OpenSpiel's |"]
    lines[0] += " value to the first seat | published | iterations | in | peak memory |"
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for row in result["rows"]:
        difference = "–" if row["difference"] is None else f"{row['difference']:.0e}"
        published = "–" if row["published"] is None else f"{row['published']:.4f}"
        cells = [f"`{row['game']}`", f"{row['states']:,}", f"{row['build_seconds']:.1f} s", f"{row['uniform']:.6f}"]
        cells += [f"{row['uniform_seconds']:.2f} s", difference, f"{row['low']:.4f} to {row['high']:.4f}", published]
        cells += [f"{row['iterations']:,}", f"{row['solve_seconds']:.0f} s", f"{row['peak_gb']:.2f} GB"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=70.0, help="of CFR+ a game")
    parser.add_argument("--only", choices=GAMES, help="one game, in this process")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measured(arguments.only, arguments.seconds)))
        return
    words = ["--seconds", str(arguments.seconds)]
    rows = [in_a_process("benchmarks.speed.dark_boards", "--only", game, *words) for game in GAMES]
    print(json.dumps({"dark": {"rows": rows}}) if arguments.json else "\n".join(dark_lines({"rows": rows})))


if __name__ == "__main__":
    main()
