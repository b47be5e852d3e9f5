"""Tournaments: the pairs' matches are those of head to head, and what is refused is said."""

import json
import os
from dataclasses import replace

import pytest
from support.matches.tournaments import KUHN, everything, played, words

from arena.samplers.scripted import Random
from games.common.seeds import derive_seed
from games.registry import make_game
from league.cli import main
from league.population.evaluation import tournament
from league.population.evaluation.head_to_head import compare
from league.population.evaluation.tournament import Tournament, open_tournament
from league.population.evaluation.tournament_plan import TournamentPlan
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.results.match_store import MatchStore
from league.population.storage.lock import run_lock
from league.population.storage.run_dir import PLAN_FILE


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
    with played(TournamentPlan(game, names, 100, 3), tmp_path / "t") as store:
        result, pairs, cells = (
            compare(players, 100, derive_seed(3, "pair", *names)),
            store.pairs(game),
            store.cells(game),
        )
        assert [match.returns for match in store.matches(game)] == [episode.returns for episode in result.episodes]
    assert pairs.n == len(result.episodes) == matches
    assert pairs.deals == len(result.episodes) // len(cells.n)
    assert pairs.players == names[::-1]  # sorted, so the lead is the other's
    assert pairs.lead == pytest.approx(-result.lead.mean, abs=1e-12)
    assert pairs.score == pytest.approx(1.0 - result.score.mean, abs=1e-12)
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


@pytest.mark.parametrize("left_out", [0, 59, 60, 100, 119, 179], ids=lambda index: f"match {index}")
def test_a_tournament_that_lacks_one_match_plays_that_one(left_out, tmp_path):
    """Three pairs of 60 matches: the first, the last, and those at the ends of a pair are as any other."""
    plan = KUHN._replace(players=("random", "always:bet", "always:pass"))
    whole = tmp_path / "whole"
    with played(plan, whole) as store:
        assert store.indices() == set(range(180))
    again, ended = Tournament(plan), []
    with open_tournament(tmp_path / "resumed", again) as store:
        every = []
        again.play(store, every.append)
    resumed = tmp_path / "lacking"
    with open_tournament(resumed, again) as store:
        store.add(episode for episode in map(again._with_names, every) if episode.request.index != left_out)
        again.play(store, ended.append)
    assert [episode.request.index for episode in ended] == [left_out]
    assert everything(resumed)[0] == everything(whole)[0]


def test_bluffing_always_loses_what_it_must(tmp_path):
    """Two players whose moves are fixed: always:bet takes always:pass's ante whenever it is asked to fold."""
    plan = TournamentPlan("kuhn_poker", ("always:bet", "always:pass"), 40, 0)
    with played(plan, tmp_path / "t") as store:
        pairs = store.pairs("kuhn_poker")
    assert (pairs.players, pairs.lead, pairs.score) == (("always:bet", "always:pass"), [2.0], [1.0])
    assert (pairs.won, pairs.drawn, pairs.lost) == ([20], [0], [0])
    assert pairs.lead_error == 0.0


class Mixed:
    """An engine of several ids, which records the ids it is asked for."""

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
    with played(TournamentPlan("kuhn_poker", ("run@mixture", "random"), 400, 0), tmp_path / "t") as store:
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

    slow = Tournament(TournamentPlan("kuhn_poker", ("random", "always:bet"), 60, 0))
    slow.players[:] = [
        replace(player, engine=Slow()) if player.label == "random" else player for player in slow.players
    ]
    monkeypatch.setattr(tournament, "IN_FLIGHT", 7)
    with open_tournament(tmp_path / "t", slow) as store, MatchStore(store.path) as reader:
        slow.play(store, ended.append)
        assert len(reader.indices()) == len(ended) == 60
    assert len(stored) > 10
    assert all(stored)


# What is refused, and what is said


def test_the_same_command_again_plays_nothing_and_says_the_same(tmp_path, capsys):
    reports = []
    for _ in range(2):
        assert main([*words(KUHN, tmp_path / "t"), "--json"]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]
    assert reports[0]["question"] == {**KUHN.to_json(), "players": list(KUHN.players)}
    assert reports[0]["standings"]["matches"] == 6 * 60
    ranking = [line["player"] for line in reports[0]["standings"]["ranking"]]
    assert sorted(ranking) == sorted(KUHN.players)
    assert ranking[0] == "equilibrium"
    assert main(words(KUHN, tmp_path / "t")) == 0
    message = capsys.readouterr().out
    assert message.startswith("kuhn_poker: a tournament of 4 players (seed 5)\n")
    assert all(player in message for player in KUHN.players)


def test_another_plan_in_the_same_folder_is_refused(tmp_path, capsys):
    folder = tmp_path / "t"
    played(KUHN, folder).close()
    for changed in (KUHN._replace(seed=6), KUHN._replace(matches=61), KUHN._replace(players=KUHN.players[:3])):
        message = refusal(capsys, *words(changed, folder))
        assert "holds another tournament" in message
        assert f"league tournament --resume --run-dir {folder}" in message
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letters.txt").touch()
    assert "is not empty (it holds letters.txt)" in refusal(capsys, *words(KUHN, tmp_path / "other"))


def test_a_name_that_stands_for_another_player_by_now_is_refused(tmp_path, capsys):
    folder = tmp_path / "t"
    played(KUHN, folder).close()
    record = json.loads((folder / PLAN_FILE).read_text())
    record["stands_for"]["random"] = [[["runs/pocket@main-000010", 1.0]]] * 2
    (folder / PLAN_FILE).write_text(json.dumps(record))
    message = refusal(capsys, *words(KUHN, folder))
    assert "random is no longer the player" in message
    assert "it was runs/pocket@main-000010, and is now random" in message
    (folder / PLAN_FILE).write_text("{")
    assert f"{PLAN_FILE} is damaged" in refusal(capsys, "tournament", "--resume", "--run-dir", folder)
    (folder / PLAN_FILE).write_text("[]")
    assert "is not a tournament's" in refusal(capsys, *words(KUHN, folder))


def test_a_strangers_plan_is_checked_field_by_field(tmp_path, capsys):
    folder = tmp_path / "t"
    played(KUHN, folder).close()
    sound = json.loads((folder / PLAN_FILE).read_text())
    hostile = {
        "game": (None, 5, [], {}),
        "players": (None, 5, [[]], [None, "random"], {"random": 1}),
        "matches": (None, "many", 0, -1, 10**30, []),
        "seed": (None, "x", []),
        "settings": (None, 5, {"no_such": 1}, {"temperature": "hot"}, {"top_k": [1]}),
        "plugins": (None, [5]),
        "stands_for": (None, 5, {"random": None}, {"random": []}, {"random": [[]]}, {"random": [[["random"]]]}),
    }
    for key, values in hostile.items():
        for value in values:
            (folder / PLAN_FILE).write_text(json.dumps(sound | {key: value}))
            for command in (("standings", folder), ("tournament", "--resume", "--run-dir", folder)):
                message = refusal(capsys, *command)
                assert f"{PLAN_FILE} is damaged: " in message, (key, value)
                assert key in message, (key, value)
    (folder / PLAN_FILE).write_text(json.dumps(sound | {"stands_for": {}}))
    assert "it was nobody" in refusal(capsys, "tournament", "--resume", "--run-dir", folder)


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
        (["--resume", "--run-dir", "nowhere", "--seed", "1"], "Leave out players, --game"),
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
