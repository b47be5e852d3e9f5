"""Whether the words before an act matter, in a model that was taught to compute before it acts.

    python -m benchmarks.studies.language.words words [--keep DIR] [--seeds 101 102 103 104 105] [--json]

Runs of the preset ``pocket-reasons``. The figures are those of ``league match RUN random --words`` in tic-tac-toe, with
the score in the same matches.
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
WORDS = f"match RUN random --game {GAME} --matches 100 --words"


def measure(keep: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """Return a table for each figure."""
    runs = trained(PRESET, seeds, (), keep, (WORDS,))
    answers = [runs[seed].answers[WORDS] for seed in seeds]
    changes = [answer["words"][0]["changes"] for answer in answers]
    names = ["fresh", *(name for name in changes[0] if name != "fresh")]
    tables = []
    for key, figure in (("moved", "how far the act moves (total variation)"), ("changed", "share of changed acts")):
        rows = {f"words: {name}": [{"figure": change[name][key]} for change in changes] for name in names}
        tables.append(_table(figure, rows))
    for key, figure in (("score_a", "score against random"), ("illegal_rate", "share of illegal replies")):
        tables.append(_table(figure, {f"`{PRESET}`": [{"figure": answer[key]} for answer in answers]}))
    return {"tables": tables}


def _table(figure: str, rows: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    conditions = [{"name": name, "runs": runs} for name, runs in rows.items()]
    return {"game": GAME, "figure": figure, "less_is_better": None, "columns": {}, "conditions": conditions}


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
