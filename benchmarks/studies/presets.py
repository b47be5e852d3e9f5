"""What a preset learns and what it costs: trained with several seeds, then measured by `league` commands.

    python -m benchmarks.studies.presets PRESET [--seeds 0 1 2] [--keep DIR] [--set KEY=VALUE]... [--json]

Each seed is one `league train` in a fresh directory and a process of its own, which is timed from outside;
its peak memory is the system's figure for that process. Every other figure is read from the JSON that a
`league` command prints about the finished run, so anybody who has the run can measure it again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

LEAGUE = (sys.executable, "-m", "league.cli")
RUSAGE_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in one unit of ru_maxrss


class Question(NamedTuple):
    """A figure: the worst value of one key in the output of one or more `league` commands; RUN stands for the run."""

    commands: tuple[str, ...]
    key: str
    worst: Callable[[Sequence[float]], float] = max


_KUHN = "exploitability RUN --game kuhn_poker"
_TIC_TAC_TOE = "match RUN random --game tic_tac_toe --matches 400"
_BY_MATCHES = tuple(f"match RUN random --game {game} --matches 400" for game in ("kuhn_poker", "tiny_hanabi"))

THREE_GAMES = {
    "kuhn_exploitability": Question((_KUHN,), "exploitability"),
    "kuhn_mixture_exploitability": Question(("exploitability RUN@mixture --game kuhn_poker",), "exploitability"),
    "tic_tac_toe_score": Question((_TIC_TAC_TOE,), "score_a"),
    "tic_tac_toe_score_low": Question((_TIC_TAC_TOE,), "score_a_low"),
    "tic_tac_toe_score_high": Question((_TIC_TAC_TOE,), "score_a_high"),
    "tiny_hanabi_share_of_optimum": Question(("exploitability RUN --game tiny_hanabi",), "share_of_optimum"),
    "illegal_rate": Question((_TIC_TAC_TOE, *_BY_MATCHES), "illegal_rate"),
}
FREE_REPLIES = {
    "kuhn_exploitability": Question((_KUHN,), "exploitability"),
    "illegal_rate": Question(("match RUN random --game kuhn_poker --matches 4000",), "illegal_rate"),
}
_FEW_MATCHES = _TIC_TAC_TOE.replace("400", "100")  # of a real model, each of which takes a second or more
REAL_MODEL = {
    name: question._replace(commands=tuple([c.replace(_TIC_TAC_TOE, _FEW_MATCHES) for c in question.commands]))
    for name, question in THREE_GAMES.items()
    if name.startswith(("kuhn", "tic_tac_toe"))
}
QUESTIONS = dict.fromkeys(("pocket", "pocket-long"), THREE_GAMES)
QUESTIONS |= dict.fromkeys(("pocket-free", "smol-free"), FREE_REPLIES) | {"smol": REAL_MODEL}


class Cost(NamedTuple):
    """Time and memory of a process."""

    seconds: float  # from its start to its end
    processor_seconds: float  # of all its threads
    peak_memory_gb: float  # 10^9 bytes resident at most


def timed(command: Sequence[str]) -> Cost:
    """Run a command to its end, its standard output dropped. Raises CalledProcessError if it fails.

    The system counts this process's memory at the time of the start as the new one's, so this module imports little.
    """
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    seconds, processor_seconds = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    return Cost(seconds, processor_seconds, usage.ru_maxrss * RUSAGE_UNIT / 1e9)


def answers(run_dir: Path, questions: dict[str, Question]) -> dict[str, float]:
    """Return the figures of a finished run; a command that several questions need runs once."""

    @cache
    def answer(command: str) -> dict[str, Any]:
        words = [word.replace("RUN", str(run_dir)) for word in command.split()]
        process = subprocess.run([*LEAGUE, *words, "--json"], stdout=subprocess.PIPE, check=True)
        return dict(json.loads(process.stdout))

    return {
        name: question.worst([float(answer(command)[question.key]) for command in question.commands])
        for name, question in questions.items()
    }


def measure(preset: str, seeds: Sequence[int], overrides: Sequence[str], keep: Path) -> dict[str, Any]:
    """Train and measure a preset once for each seed; the runs stay in ``keep`` as PRESET-SEED."""
    figures = []
    settings = [word for override in overrides for word in ("--set", override)]
    for seed in seeds:
        run_dir = (keep / f"{preset}-{seed}").absolute()
        print(f"league train {preset} --seed {seed} in {run_dir}", file=sys.stderr, flush=True)
        cost = timed([*LEAGUE, "train", preset, "--seed", str(seed), "--run-dir", str(run_dir), *settings])
        figures.append({"seed": seed, **cost._asdict(), **answers(run_dir, QUESTIONS[preset])})
    return {"preset": preset, "seeds": figures}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=sorted(QUESTIONS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the runs in DIR, as PRESET-SEED")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="passed on to league train")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        keep = arguments.keep or Path(temporary)
        result = measure(arguments.preset, arguments.seeds, arguments.set, keep)
    if arguments.json:
        print(json.dumps(result))
        return
    for figures in result["seeds"]:
        print("   ".join(f"{name} {value:.4g}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
