"""Tournaments: the pairs' matches are those of head to head, and a kill at any moment changes nothing."""

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from arena.samplers.scripted import Random
from games.registry import make_game
from games.seeds import derive_seed
from league import tournament
from league.cli import main
from league.head_to_head import compare
from league.lock import run_lock
from league.match_store import STORE_FILE, MatchStore
from league.players import Engines, resolve
from league.tournament import QUESTION_FILE, Question, Tournament, opened

KUHN = Question("kuhn_poker", ("random", "equilibrium", "always:bet", "always:pass"), 60, 5)
FORK = multiprocessing.get_context("fork")  # what takes long to import is imported already


def played(question, folder):
    asked = Tournament(question)
    with opened(folder, asked) as store:
        asked.play(store, lambda _: None)
    return MatchStore(folder / STORE_FILE)


def words(question, folder):
    options = ["--game", question.game, "--matches", question.matches, "--seed", question.seed, "--run-dir", folder]
    return ["tournament", *question.players, *map(str, options)]


def everything(folder, game="kuhn_poker"):
    """Return all that a tournament found, to be compared bit for bit."""
    with MatchStore(folder / STORE_FILE) as store:
        cells, pairs = store.cells(game), store.pairs(game)
        arrays = [
            getattr(one, name) for one in (cells, pairs) for name in one.__dataclass_fields__ if name != "players"
        ]
        return list(store.matches(game)), cells.players, [array.tobytes() for array in arrays]


def refusal(capsys, *arguments):
    assert main(list(map(str, arguments))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("league: ")
    return captured.err


@pytest.mark.parametrize(
    ("game", "names", "matches"),
    [
        ("kuhn_poker", ("random", "always:bet"), 100),
        ("kuhn_poker(players=3)", ("random", "always:bet"), 102),
        ("tiny_hanabi", ("random", "always:a0"), 100),
    ],
)
def test_each_pair_plays_the_matches_of_head_to_head(game, names, matches, tmp_path):
    engines, spec = Engines(), make_game(game).spec
    players = tuple(resolve(name, spec, engines) for name in names)
    with played(Question(game, names, 100, 3), tmp_path / "t") as store:
        found, pairs, cells = (
            compare(players, 100, derive_seed(3, "pair", *names)),
            store.pairs(game),
            store.cells(game),
        )
        assert [one.returns for one in store.matches(game)] == [episode.returns for episode in found.episodes]
    assert pairs.n == len(found.episodes) == matches
    assert pairs.deals == len(found.episodes) // len(cells.n)
    assert pairs.players == names[::-1]  # sorted, so the lead is the other's
    assert pairs.lead == pytest.approx(-found.lead.mean, abs=1e-12)
    assert pairs.score == pytest.approx(1.0 - found.score.mean, abs=1e-12)
    assert len(set(cells.n.tolist())) == 1  # every seating as often


def test_every_pair_meets_on_deals_of_its_own_and_other_players_change_nothing(tmp_path):
    with (
        played(KUHN, tmp_path / "four") as store,
        played(KUHN._replace(players=KUHN.players[:2]), tmp_path / "two") as two,
    ):
        pairs = store.pairs("kuhn_poker")
        assert (pairs.n.tolist(), pairs.deals.tolist()) == ([60] * 6, [30] * 6)
        matches = list(store.matches("kuhn_poker"))
        assert len({match.deal_seed for match in matches}) == 6 * 30
        assert matches[:60] == list(two.matches("kuhn_poker"))
        assert {match.rule for match in matches} == {"tournament"}


def test_bluffing_always_loses_what_it_must(tmp_path):
    """Two players whose moves are fixed: always:bet takes always:pass's ante whenever it is asked to fold."""
    question = Question("kuhn_poker", ("always:bet", "always:pass"), 40, 0)
    with played(question, tmp_path / "t") as store:
        pairs = store.pairs("kuhn_poker")
    assert (pairs.players, pairs.lead, pairs.score) == (("always:bet", "always:pass"), [2.0], [1.0])
    assert (pairs.won, pairs.drawn, pairs.lost) == ([20], [0], [0])
    assert pairs.lead_error == 0.0


class Mixed:
    """An engine of several ids, which notes who was asked."""

    def __init__(self):
        self.asked, self.engine = [], Random()

    def sample(self, requests):
        self.asked += [request.player for request in requests]
        return self.engine.sample(requests)


def test_a_mixture_draws_a_member_each_match_and_counts_under_its_own_name(tmp_path, monkeypatch):
    engine = Mixed()

    def resolved(text, spec, engines):
        members = ((("run@a", 0.5), ("run@b", 0.5)),) * spec.seats
        player = resolve("random", spec, engines)
        return player if text == "random" else replace(player, label=text, engine=engine, members=members)

    monkeypatch.setattr(tournament, "resolve", resolved)
    with played(Question("kuhn_poker", ("run@mixture", "random"), 400, 0), tmp_path / "t") as store:
        assert store.pairs("kuhn_poker").players == ("random", "run@mixture")
    shares = [engine.asked.count(member) / len(engine.asked) for member in ("run@a", "run@b")]
    assert sum(shares) == 1.0
    assert 0.4 < shares[0] < 0.6


def test_what_has_ended_is_stored_before_the_players_are_asked_again(tmp_path, monkeypatch):
    ended, stored = [], []

    class Slow(Random):
        def sample(self, requests):
            stored.append(len(reader.indices()) == len(ended))
            return super().sample(requests)

    asked = Tournament(Question("kuhn_poker", ("random", "always:bet"), 60, 0))
    asked.players[:] = [
        replace(player, engine=Slow()) if player.label == "random" else player for player in asked.players
    ]
    monkeypatch.setattr(tournament, "IN_FLIGHT", 7)
    with opened(tmp_path / "t", asked) as store, MatchStore(store.path) as reader:
        asked.play(store, ended.append)
        assert len(reader.indices()) == len(ended) == 60
    assert len(stored) > 10
    assert all(stored)


# A kill


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


def start(question, folder, in_flight=256):
    process = FORK.Process(target=live, args=(words(question, folder), f"{folder}.notes", in_flight))
    process.start()
    return process


def finished(folder):
    """Return the matches in the store, after a check that none whose storing had returned is missing."""
    if not (folder / STORE_FILE).exists():
        return set()
    with MatchStore(folder / STORE_FILE) as store:
        found = store.indices()
    notes = folder.with_name(f"{folder.name}.notes")
    noted = notes.read_text().split() if notes.exists() else []
    assert set(map(int, noted)) <= found
    return found


def kill_at_random(question, kills, folder, seed):
    """Play on through kills until the tournament is over; return how many processes were killed."""
    rng, killed, before = random.Random(seed), 0, set()
    started = time.monotonic()
    assert start(question, folder / "whole").join() is None
    whole = time.monotonic() - started
    while True:
        process = start(question, folder / "killed", in_flight=rng.choice([1, 16, 256]))
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


def check_kills(question, kills, folder):
    killed = kill_at_random(question, kills, folder, seed=kills)
    assert killed >= kills / 2  # a machine that is busy first and idle later may finish early
    assert everything(folder / "killed") == everything(folder / "whole")
    assert finished(folder / "killed") == set(range(len(Tournament(question))))


def test_killed_twelve_times_every_match_counts_once(tmp_path):
    check_kills(KUHN._replace(matches=600), 12, tmp_path)


@pytest.mark.slow
def test_killed_fifty_times_every_match_counts_once(tmp_path):
    check_kills(KUHN._replace(matches=4000), 50, tmp_path)


def test_ctrl_c_says_how_to_go_on_and_that_ends_the_same(tmp_path):
    question, folder = KUHN._replace(matches=2000), tmp_path / "stopped"
    process = start(question, folder)
    while not finished(folder):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    told = (tmp_path / "stopped.notes.log").read_text()
    assert f"of {len(Tournament(question))} matches, which are kept. To go on:" in told
    assert f"league tournament --resume --run-dir {folder}" in told
    assert f"Stopped after {len(finished(folder))} of" in told
    assert main(["tournament", "--resume", "--run-dir", str(folder)]) == 0
    played(question, tmp_path / "whole").close()
    assert everything(folder) == everything(tmp_path / "whole")


# What is refused, and what is said


def test_the_same_command_again_plays_nothing_and_says_the_same(tmp_path, capsys):
    told = []
    for _ in range(2):
        assert main([*words(KUHN, tmp_path / "t"), "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
    assert told[0]["question"] == {**KUHN._asdict(), "players": list(KUHN.players)}
    assert told[0]["standings"]["matches"] == 6 * 60
    ranking = [line["player"] for line in told[0]["standings"]["ranking"]]
    assert sorted(ranking) == sorted(KUHN.players)
    assert ranking[0] == "equilibrium"
    assert main(words(KUHN, tmp_path / "t")) == 0
    said = capsys.readouterr().out
    assert said.startswith("kuhn_poker: a tournament of 4 players (seed 5)\n")
    assert all(player in said for player in KUHN.players)


def test_another_question_in_the_same_folder_is_refused(tmp_path, capsys):
    folder = tmp_path / "t"
    played(KUHN, folder).close()
    for changed in (KUHN._replace(seed=6), KUHN._replace(matches=61), KUHN._replace(players=KUHN.players[:3])):
        said = refusal(capsys, *words(changed, folder))
        assert "holds another tournament" in said
        assert f"league tournament --resume --run-dir {folder}" in said
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letters.txt").touch()
    assert "is not empty (it holds letters.txt)" in refusal(capsys, *words(KUHN, tmp_path / "other"))


def test_a_name_that_stands_for_another_player_by_now_is_refused(tmp_path, capsys):
    folder = tmp_path / "t"
    played(KUHN, folder).close()
    found = json.loads((folder / QUESTION_FILE).read_text())
    found["stands_for"]["random"] = [[["runs/pocket@main-000010", 1.0]]] * 2
    (folder / QUESTION_FILE).write_text(json.dumps(found))
    said = refusal(capsys, *words(KUHN, folder))
    assert "random is not the player any more" in said
    assert "it was runs/pocket@main-000010, and is random" in said
    (folder / QUESTION_FILE).write_text("{")
    assert f"{QUESTION_FILE} is damaged" in refusal(capsys, "tournament", "--resume", "--run-dir", folder)
    (folder / QUESTION_FILE).write_text("[]")
    assert "is not a tournament's" in refusal(capsys, *words(KUHN, folder))


def test_a_folder_in_use_is_refused(tmp_path, capsys):
    with run_lock(tmp_path / "t"):
        assert f"in use by process {os.getpid()}" in refusal(capsys, *words(KUHN, tmp_path / "t"))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["random", "--game", "kuhn_poker"], "two or more different players, not random"),
        (["random", "random", "--game", "kuhn_poker"], "two or more different players"),
        (["--game", "kuhn_poker"], "not none"),
        (["random", "always:bet"], "--game kuhn_poker"),
        (["random", "mcts:2", "--game", "2048"], "2048 has one seat"),
        (["random", "mcts:2", "--game", "kuhn_poker", "--matches", "0"], "--matches 0"),
        (["random", "randum", "--game", "kuhn_poker"], "Did you mean random?"),
        (["--resume"], "--run-dir DIR"),
        (["--resume", "--run-dir", "nowhere"], "nowhere holds no tournament"),
        (["--resume", "--run-dir", "nowhere", "--seed", "1"], "Leave players, --game"),
    ],
)
def test_mistakes_are_told_in_a_sentence_and_leave_nothing_behind(arguments, part, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert part in refusal(capsys, "tournament", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_a_new_one_is_made(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["tournament", "random", "always:bet", "--game", "kuhn_poker(players=3)", "--matches", "6", "--json"]
    folders = []
    for _ in range(2):
        assert main(arguments) == 0
        folders.append(json.loads(capsys.readouterr().out)["tournament"])
    assert folders == ["tournaments/kuhn_poker-players-3-1", "tournaments/kuhn_poker-players-3-2"]
    assert everything(tmp_path / folders[0], "kuhn_poker(players=3)") == everything(
        tmp_path / folders[1], "kuhn_poker(players=3)"
    )
