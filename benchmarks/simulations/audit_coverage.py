"""Do an audit's intervals hold, and does it find what is not there? One snapshot, served and asked again and again.

    python -m benchmarks.simulations.audit_coverage FOLDER [--repeats 200] [--replies 16] [--matches 100] [--minutes 9]

trains a small run into FOLDER, serves its newest snapshot by `league serve` without log-probs, and repeats two parts
of `league audit` with other draws each time: the table of Kuhn poker from sampled replies, whose interval has to hold
the snapshot's exact exploitability, and the player's matches against itself, in which no difference should be found.
Each repeat is written to FOLDER as it ends, so that a command whose minutes are over continues where it ended. When all
are there the table of results/audit_coverage.md is written.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import league
from benchmarks.report.page import RESULTS
from games.common.files import atomic_write
from games.registry import make_game
from league.lab.audit.measures import Control
from league.population.evaluation.exploitability_report import measure
from league.population.evaluation.head_to_head import compare
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.population.players.tabulating import TableSource
from league.theory.statistics import wilson

GAME = "kuhn_poker"
ITERATIONS = 20
CONCURRENCY = 64  # requests under way at once
PAGE = RESULTS / "audit_coverage.md"


class Repeat(NamedTuple):
    """One audit of the served snapshot."""

    low: float  # of the exploitability, in chips a match
    mean: float
    high: float
    differs: bool  # whether the null control found a difference


def trained(folder: Path) -> Path:
    """Return a small run of one game, trained once."""
    run = folder / "run"
    if not run.exists():
        settings = [f"iterations={ITERATIONS}", f"snapshot_every={ITERATIONS}", "evaluation.exact=false", "threads=1"]
        league.train(league.load_config("pocket", *settings, games=[GAME]), run)
    return run


@contextmanager
def served(run: Path, folder: Path) -> Iterator[str]:
    """Serve the newest snapshot, and yield the name of a player whose replies have to be sampled."""
    player = folder / "player.toml"
    words = ["-m", "league", "serve", str(run), "--port", "0", "--player", str(player), "--threads", "1"]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("Let it play"):
                break
        with player.open("a", encoding="utf-8") as file:
            file.write(f'leave_out = ["logprobs"]\nconcurrency = {CONCURRENCY}\n')
        yield f"openai:{player}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def repeat(player: Player, number: int, replies: int, matches: int) -> Repeat:
    """Return what the audit with draws of this number finds."""
    tabulated = player.tabulate(seed=number, replies=replies)
    assert tabulated.source is TableSource.REPLIES
    report = measure(player, tabulated)
    assert report.sampled is not None
    low, high = report.sampled.mean.low, report.sampled.mean.high
    assert low is not None
    assert high is not None
    met = compare((player, replace(player, label="again")), matches, number)
    return Repeat(low, report.exploitability, high, Control("", player.spec, matches, met.lead).differs)


def repeats(folder: Path, number: int, replies: int, matches: int, minutes: float) -> list[Repeat]:
    """Return the repeats that are there, after as many more as the minutes allow."""
    begun, run = time.monotonic(), trained(folder)
    kept = folder / f"repeats-{replies}-{matches}.jsonl"
    done = [Repeat(*json.loads(line)) for line in kept.read_text().splitlines()] if kept.exists() else []
    if len(done) < number:
        with served(run, folder) as name, Engines() as engines, kept.open("a", encoding="utf-8") as file:
            player = resolve(name, make_game(GAME).spec, engines)
            while len(done) < number and time.monotonic() - begun < 60.0 * minutes:
                done.append(repeat(player, len(done), replies, matches))
                file.write(json.dumps(done[-1]) + "\n")
                file.flush()
    return done[:number]


def table(done: list[Repeat], truth: float, replies: int, matches: int) -> str:
    """Return the results as a table: shares with Wilson's 95 % interval."""
    number = len(done)
    held = wilson(sum(one.low <= truth <= one.high for one in done) / number, number)
    found = wilson(sum(one.differs for one in done) / number, number)
    width = sum(one.high - one.low for one in done) / number
    return (
        "| of the audits | share | 95 % interval | wanted |\n| --- | --- | --- | --- |\n"
        f"| whose interval, {width:.3f} wide on average, holds the exploitability {truth:.4f} "
        f"({replies} replies a state) | {held.mean:.1%} | {held.low:.1%}–{held.high:.1%} | at least 95 % |\n"
        f"| whose null control of {matches} matches finds a difference "
        f"| {found.mean:.1%} | {found.low:.1%}–{found.high:.1%} | at most 5 % |\n"
    )


def main() -> None:
    """Repeat, print the table so far, and write it when it is complete."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--replies", type=int, default=16)
    parser.add_argument("--matches", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=9.0)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    done = repeats(given.folder, given.repeats, given.replies, given.matches, given.minutes)
    truth = league.exploitability(str(given.folder / "run"), game=GAME).exploitability
    shown = table(done, truth, given.replies, given.matches)
    print(f"{len(done)} of {given.repeats} repeats\n\n{shown}")
    if len(done) == given.repeats:
        text = PAGE.read_text(encoding="utf-8")
        atomic_write(PAGE, re.sub(r"^\|.*\|\n(\|.*\|\n)+", lambda _: shown, text, flags=re.MULTILINE))


if __name__ == "__main__":
    main()
