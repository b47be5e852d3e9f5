"""Tournaments that are killed or stopped at any moment find what an undisturbed one plays."""

import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from support.matches.tournaments import KUHN, everything, played, words

from league.cli import main
from league.population.evaluation import tournament
from league.population.evaluation.tournament import Tournament
from league.population.results.match_store import STORE_FILE, MatchStore

FORK = multiprocessing.get_context("fork")  # what takes long to import is imported already


def live(arguments, acknowledged, in_flight):
    """Be ``league tournament``; note every match whose storing has returned, so that nothing is lost in a pipe."""
    note, add = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT), MatchStore.add

    def add_and_note(store, episodes, iteration=0):
        batch = list(episodes)
        new = add(store, batch, iteration)
        os.write(note, "".join(f"{episode.request.index}\n" for episode in batch).encode())
        return new

    MatchStore.add, tournament.IN_FLIGHT = add_and_note, in_flight
    with Path(f"{acknowledged}.log").open("a") as log:
        sys.stdout = sys.stderr = log
        status = main(arguments)
    os._exit(status)


def start(plan, folder, in_flight=256):
    process = FORK.Process(target=live, args=(words(plan, folder), f"{folder}.notes", in_flight))
    process.start()
    return process


def finished(folder):
    """Return the matches in the store, after a check that none whose storing had returned is missing."""
    if not (folder / STORE_FILE).exists():
        return set()
    notes = folder.with_name(f"{folder.name}.notes")
    noted = notes.read_text().split() if notes.exists() else []  # before the store: it may still be playing
    with MatchStore(folder / STORE_FILE) as store:
        indices = store.indices()
    assert set(map(int, noted)) <= indices
    return indices


def kill_at_random(plan, kills, folder, seed):
    """Play on through kills until the tournament is over; return how many processes were killed."""
    rng, killed, before = random.Random(seed), 0, set()
    started = time.monotonic()
    assert start(plan, folder / "whole").join() is None
    whole = time.monotonic() - started
    while True:
        process = start(plan, folder / "killed", in_flight=rng.choice([1, 16, 256]))
        process.join(rng.uniform(0.0, 1.5 * whole / kills) if killed < kills else None)
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        now = finished(folder / "killed")
        assert before <= now
        before = now
        if process.exitcode == 0:
            return killed
        assert process.exitcode == -signal.SIGKILL
        killed += 1


def check_kills(plan, kills, folder):
    killed = kill_at_random(plan, kills, folder, seed=kills)
    assert killed >= kills / 2  # a machine that is busy first and idle later may finish early
    assert everything(folder / "killed") == everything(folder / "whole")
    assert finished(folder / "killed") == set(range(len(Tournament(plan))))


@pytest.mark.thorough
def test_killed_twelve_times_every_match_counts_once(tmp_path):
    check_kills(KUHN._replace(matches=600), 12, tmp_path)


@pytest.mark.slow
def test_killed_fifty_times_every_match_counts_once(tmp_path):
    check_kills(KUHN._replace(matches=4000), 50, tmp_path)


def test_ctrl_c_says_how_to_go_on_and_that_ends_the_same(tmp_path):
    plan, folder = KUHN._replace(matches=4000), tmp_path / "stopped"
    process = start(plan, folder, in_flight=32)  # most matches are still to be played when the first are stored
    while not finished(folder):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    output = (tmp_path / "stopped.notes.log").read_text()
    assert f"of {len(Tournament(plan))} matches, which are kept. To go on:" in output
    assert f"league tournament --resume --run-dir {folder}" in output
    assert f"Stopped after {len(finished(folder))} of" in output
    assert main(["tournament", "--resume", "--run-dir", str(folder)]) == 0
    played(plan, tmp_path / "whole").close()
    assert everything(folder) == everything(tmp_path / "whole")
