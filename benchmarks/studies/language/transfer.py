"""What training in two games does elsewhere: other games, sums in words, plain text and small tasks, before and after.

    python -m benchmarks.studies.language.transfer transfer [--keep DIR] [--seeds 0 1 2] [--json]
    python -m benchmarks.studies.language.transfer language [--keep DIR] [--seeds 0 1 2] [--json]

``language`` leaves the games and the sums in words out, which take the longest, and its runs are shorter (``SHORT``).

Runs of the preset ``smol`` that ``python -m benchmarks smol --keep DIR`` left in DIR are taken from there; what is
missing is trained. A game's figure is the score
against random, of the untrained model and of the last snapshot on the same deals (those of the seed). A sum is asked in
words, such as "What is seven plus five?", and answered by the most likely of the numbers from zero to forty under a
mask; the sums are those of the seed. Perplexity is that of the passages of ``evaluation.language``; the small tasks are
``TASKS`` of each kind, those of the seed (``league.population.evaluation.small_tasks``).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel

from arena.lm.language_model import LanguageModel
from benchmarks.report.comparison import comparison_lines
from benchmarks.studies.presets import trained
from league.population.evaluation.ordinary_language import perplexity
from league.population.evaluation.small_tasks import score_tasks, small_tasks, task_shares
from league.population.models.source import model_folder

LEAGUE = (sys.executable, "-m", "league")
MODEL = "smollm2-135m"
MATCHES = {  # by game; the long ones are fewer
    "connect_four": 40,
    "leduc_poker": 200,
    "hex(board_size=3)": 100,
    "liars_dice(dice_sides=4)": 200,
}
SUMS, LARGEST = 200, 20
TASKS = 40  # of each kind
SHORT = ("iterations=15", "snapshot_every=15", "games.tic_tac_toe.every=5", "threads=1")
TEXT = "plain text"
UNITS: list[str] = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen",
)
TENS = {2: "twenty", 3: "thirty", 4: "forty"}


def in_words(number: int) -> str:
    """Return a number from 0 to 49 in words."""
    if number < len(UNITS):
        return UNITS[number]
    tens, unit = divmod(number, 10)
    return f"{TENS[tens]}-{UNITS[unit]}" if unit else TENS[tens]


def score(player: str, game: str, seed: int) -> float:
    """Return a player's score against random."""
    words = ["match", player, "random", "--game", game, "--matches", str(MATCHES[game]), "--seed", str(seed)]
    process = subprocess.run([*LEAGUE, *words, "--json"], stdout=subprocess.PIPE, check=True)
    return float(json.loads(process.stdout)["score_a"])


def load(snapshot: Path | None) -> LanguageModel:
    """Return the untrained model, or a snapshot of it with its adapter merged."""
    lm = LanguageModel.load(model_folder(MODEL))
    if snapshot is None:
        return lm
    return LanguageModel(PeftModel.from_pretrained(lm.model, snapshot).merge_and_unload(), lm.tokenizer)


@torch.no_grad()
def share_of_sums(lm: LanguageModel, seed: int) -> float:
    """Return the share of a seed's sums that the model answers rightly."""
    rng = random.Random(seed)
    sums = [(rng.randint(0, LARGEST), rng.randint(0, LARGEST)) for _ in range(SUMS)]
    trie = lm.trie(tuple(in_words(number) for number in range(2 * LARGEST + 1)))
    questions = [f"What is {in_words(a)} plus {in_words(b)}? Answer with the number in words." for a, b in sums]
    prompts = [lm.encode_prompt([{"role": "user", "content": question}]) for question in questions]
    right = 0
    for chunk in lm.plan_choice(prompts, [trie] * SUMS, max_tokens=2048):
        answers = lm.choice_logprobs(chunk, [trie] * SUMS, 1.0).replies.argmax(-1).tolist()
        right += sum(answer == sum(sums[index]) for index, answer in zip(chunk.items, answers, strict=True))
    return right / SUMS


def last_snapshot(run_dir: Path) -> Path:
    """Return the folder of a run's newest snapshot."""
    return max((run_dir / "population").glob("main-*"))


def measure(study: str, keep: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """Return a table for each figure."""
    runs = {
        seed: run.run.path.absolute()
        for seed, run in trained("smol", seeds, SHORT if study == "language" else (), keep).items()
    }
    tables = []
    for game in MATCHES if study == "transfer" else ():
        print(f"{game}: against random", file=sys.stderr, flush=True)
        before = [{"figure": score(f"hf:{MODEL}", game, seed)} for seed in seeds]
        after = [{"figure": score(str(run_dir), game, seed)} for seed, run_dir in runs.items()]
        tables.append(_table(game, "score against random", before, after))
    figures = figures_of_language if study == "language" else figures_of_words
    before_after: list[list[dict[str, float]]] = [[], []]
    for seed, run_dir in runs.items():
        for column, snapshot in zip(before_after, (None, last_snapshot(run_dir)), strict=True):
            print(f"seed {seed}: {'untrained' if snapshot is None else 'trained'}", file=sys.stderr, flush=True)
            column.append(figures(load(snapshot), seed))
    for name in before_after[0][0]:
        columns = [[{"figure": row[name]} for row in column] for column in before_after]
        tables.append(_table(name, "perplexity" if name == TEXT else "share answered rightly", *columns))
    return {"tables": tables}


def figures_of_words(lm: LanguageModel, seed: int) -> dict[str, float]:
    """Return all figures of one model that need no play."""
    return {"sums in words": share_of_sums(lm, seed), **figures_of_language(lm, seed)}


def figures_of_language(lm: LanguageModel, seed: int) -> dict[str, float]:
    """Return the perplexity of plain text, and the share of a seed's small tasks that a model solves."""
    shares = task_shares(score_tasks(lm, small_tasks(TASKS, seed)))
    return {TEXT: perplexity(lm), **shares}


def _table(game: str, figure: str, before: list[dict[str, float]], after: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "game": game,
        "figure": figure,
        "less_is_better": figure == "perplexity",
        "columns": {},
        "conditions": [{"name": "untrained", "runs": before}, {"name": "after `smol`", "runs": after}],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["transfer", "language"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the runs of smol lie, or are to lie")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="league-") as temporary:
        keep = arguments.keep or Path(temporary)
        result = measure(arguments.study, keep / "smol", arguments.seeds)
    print(json.dumps(result) if arguments.json else "\n".join(comparison_lines(result["tables"])))


if __name__ == "__main__":
    main()
