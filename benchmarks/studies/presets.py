"""What a preset learns and what it costs: trained with several seeds, then measured by `league` commands.

    python -m benchmarks.studies.presets PRESET [--seeds 0 1 2] [--keep DIR] [--set KEY=VALUE]... [--json]

It is a `league sweep` of one setting, whose runs have a process of their own, one at a time: its time and its peak
memory are measured. Every other figure is read from the JSON that a `league` command prints about the finished run, so
anybody who has the run can measure it again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.studies.runs import cost_of, sweep
from league import SweptRun, load_config

COST = ("seconds", "processor_seconds", "peak_memory_gb")  # of the run's whole process


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
DISTILLED = {  # of a run whose distilled model alone answers freely
    name: question._replace(commands=tuple([c.replace("RUN", "RUN@distilled") for c in question.commands]))
    for name, question in FREE_REPLIES.items()
} | {"kuhn_mixture_exploitability": THREE_GAMES["kuhn_mixture_exploitability"]}
# Of a real model each match takes a second or more.
_FEW_MATCHES = _TIC_TAC_TOE.replace("400", "100").replace("tic_tac_toe", "forewarned(tic_tac_toe)")
REAL_MODEL = {
    name: question._replace(commands=tuple([c.replace(_TIC_TAC_TOE, _FEW_MATCHES) for c in question.commands]))
    for name, question in THREE_GAMES.items()
    if name.startswith(("kuhn", "tic_tac_toe"))
}
QUESTIONS = dict.fromkeys(("pocket", "pocket-returns", "pocket-long"), THREE_GAMES)
QUESTIONS |= {"pocket-free": FREE_REPLIES, "smol-free": DISTILLED, "smol": REAL_MODEL}


def measure(preset: str, seeds: Sequence[int], overrides: Sequence[str], keep: Path) -> dict[str, Any]:
    """Train and measure a preset once for each seed; the runs stay in ``keep`` as PRESET_seed-SEED."""
    questions = QUESTIONS[preset]
    commands = dict.fromkeys(command for question in questions.values() for command in question.commands)
    swept = trained(preset, seeds, overrides, keep, tuple(commands))
    figures = []
    for seed in seeds:
        cost, answers = cost_of(swept[seed])._asdict(), swept[seed].answers
        answered = {
            name: question.worst([float(answers[command][question.key]) for command in question.commands])
            for name, question in questions.items()
        }
        figures.append({"seed": seed, **{name: cost[name] for name in COST}, **answered})
    return {"preset": preset, "seeds": figures}


def trained(
    preset: str, seeds: Sequence[int], overrides: Sequence[str], keep: Path, commands: Sequence[str] = ()
) -> dict[int, SweptRun]:
    """Return the runs of a preset by seed, each trained in its own process if it is not in ``keep`` yet."""
    swept = sweep({preset: load_config(preset, *overrides)}, seeds, keep, workers=1, commands=commands)
    return {seed: swept[preset, seed] for seed in seeds}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=sorted(QUESTIONS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the runs in DIR/PRESET, and go on with them")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="try other settings")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        keep = (arguments.keep or Path(temporary)) / arguments.preset
        result = measure(arguments.preset, arguments.seeds, arguments.set, keep)
    if arguments.json:
        print(json.dumps(result))
        return
    for figures in result["seeds"]:
        print("   ".join(f"{name} {value:.4g}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
