"""Whether the words before an act matter, in a model that was taught to compute before it acts.

    python -m benchmarks.studies.language.words words [--keep DIR] [--seeds 101 102 103 104 105] [--json]

Runs of the preset ``pocket-reasons``, and of the same without words (``AT_ONCE``): the same positions and acts to
imitate, masked choices, nothing said before. The figures are those of ``league match RUN random --words`` in
tic-tac-toe, and scores against random and against minimax, which does not lose: against it ½ is the best there is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report.comparison import comparison_lines
from benchmarks.studies.presets import trained

PRESET, GAME = "pocket-reasons", "tic_tac_toe"
AT_ONCE = ("roles.reply=choice", "roles.on_illegal=mask")
WORDS = f"match RUN random --game {GAME} --matches 100 --words"
OPPONENTS = {name: f"match RUN {name} --game {GAME} --matches 400" for name in ("random", "minimax")}


def measure(keep: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """Return a table for each figure."""
    reasons = trained(PRESET, seeds, (), keep / "reasons", (WORDS, *OPPONENTS.values()))
    at_once = trained(PRESET, seeds, AT_ONCE, keep / "at_once", tuple(OPPONENTS.values()))
    changes = [reasons[seed].answers[WORDS]["words"][0]["changes"] for seed in seeds]
    names = ["fresh", *(name for name in changes[0] if name != "fresh")]
    tables = []
    for key, figure in (("moved", "how far the act moves (total variation)"), ("changed", "share of changed acts")):
        rows = {f"words: {name}": [{"figure": change[name][key]} for change in changes] for name in names}
        tables.append(_table(figure, rows, less=None))
    for opponent, command in OPPONENTS.items():
        rows = {
            name: [{"figure": runs[seed].answers[command]["score_a"]} for seed in seeds]
            for name, runs in (("at once", at_once), (f"`{PRESET}`", reasons))
        }
        tables.append(_table(f"score against {opponent}", rows, less=False))
    return {"tables": tables}


def _table(figure: str, rows: dict[str, list[dict[str, float]]], *, less: bool | None) -> dict[str, Any]:
    conditions = [{"name": name, "runs": runs} for name, runs in rows.items()]
    return {"game": GAME, "figure": figure, "less_is_better": less, "columns": {}, "conditions": conditions}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["words"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103, 104, 105])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the runs lie, or are to lie")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        result = measure(arguments.keep or Path(temporary), arguments.seeds)
    print(json.dumps(result) if arguments.json else "\n".join(comparison_lines(result["tables"])))


if __name__ == "__main__":
    main()
