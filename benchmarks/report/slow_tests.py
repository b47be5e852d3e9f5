"""The table of slow tests in ``tests/README.md``: ``python -m benchmarks.report.slow_tests LOG`` writes it again.

LOG is what ``make test-slow`` printed with ``--durations=0``. A file that is not in it has a dash.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from games.common.files import atomic_write

TESTS = Path(__file__).parents[2] / "tests"
PAGE = TESTS / "README.md"
HEAD = "| file | minutes | what it shows |\n| --- | --- | --- |\n"
_ELSEWHERE = ("outward", "vllm")  # folders with an environment of their own
_DURATION = re.compile(r"^\s*([\d.]+)s (?:call|setup|teardown)\s+(tests/\S+?\.py)::", re.MULTILINE)


def slow_files() -> list[Path]:
    """Return the files that have a test marked ``slow``, below ``tests/``, sorted."""
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py") if "mark.slow" in path.read_text("utf-8")]
    return sorted(path for path in files if path.parts[0] not in _ELSEWHERE)


def durations(log: str) -> dict[str, float]:
    """Return the seconds of each file's tests in a log of pytest with ``--durations=0``."""
    seconds: dict[str, float] = defaultdict(float)
    for number, file in _DURATION.findall(log):
        seconds[file.removeprefix("tests/")] += float(number)
    return dict(seconds)


def table(seconds: Mapping[str, float], files: Iterable[Path]) -> str:
    """Return the table: a line for each file, with minutes where they are known, and the file's own sentence."""
    rows = []
    for file in files:
        known = seconds.get(str(file))
        minutes = "–" if known is None else f"{known / 60:.1f}"
        sentence = (ast.get_docstring(ast.parse((TESTS / file).read_text("utf-8"))) or "").partition("\n\n")[0]
        rows.append(f"| `{file}` | {minutes} | {' '.join(sentence.split())} |\n")
    return HEAD + "".join(rows)


def known(page: str) -> dict[str, float]:
    """Return the seconds that a page's table tells."""
    return {
        file: 60.0 * float(minutes) for file, minutes in re.findall(r"^\| `(.+?)` \| ([\d.]+) \|", page, re.MULTILINE)
    }


def with_table(page: str, log: str = "") -> str:
    """Return the page with its table written again, from a log and what the page knew before."""
    before, head, rest = page.partition(HEAD)
    after = "".join(line for line in rest.splitlines(keepends=True) if not line.startswith("| "))
    return before + table(known(head + rest) | durations(log), slow_files()) + after


if __name__ == "__main__":
    text = "".join(Path(name).read_text("utf-8") for name in sys.argv[1:])
    atomic_write(PAGE, with_table(PAGE.read_text("utf-8"), text))
