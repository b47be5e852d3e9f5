"""Standings: cycles that Elo cannot see, results of real play, live policies left out, and what the command says."""

import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from support.source import PACKAGES

from arena.records import EndReason, Episode, MatchRequest, Turn
from games.common.errors import UsageError
from games.registry import make_game
from league.cli import main
from league.lab.standings.payoff_matrix import payoff_matrix
from league.lab.standings.standings import game_standings
from league.population.evaluation.tournament import Tournament, open_tournament
from league.population.evaluation.tournament_plan import TournamentPlan
from league.population.results.match_store import STORE_FILE, MatchStore, Pairs
from league.population.results.ratings import Ratings
from league.population.storage.run_dir import PLAN_FILE
from league.theory.cycles import significant_wins

ROCK, PAPER, SCISSORS = "always:Rock", "always:Paper", "always:Scissors"
LATER = {"asyncio", "filelock", "openskill", "pydantic", "scipy", "torch"}  # libraries that a ranking can do without
RPS, KUHN = make_game("matrix_rps").spec, make_game("kuhn_poker").spec


def match(index, players, returns, game="matrix_rps", deal=None):
    turns = tuple(
        Turn(seat, f"seat {seat}", player, "", ("x",), "x", "x", gain, None)
        for seat, (player, gain) in enumerate(zip(players, returns, strict=True))
    )
    seats = (False,) * len(players)
    request = MatchRequest(index, game, index if deal is None else deal, index, players, seats)
    return Episode(request, turns, returns, EndReason.FINISHED)


def stored(folder, episodes):
    store = MatchStore(folder / STORE_FILE)
    store.add(episodes)
    return store


def tournament(folder, players, game, matches):
    """Play a tournament for real."""
    asked = Tournament(TournamentPlan(game, players, matches, 7))
    with open_tournament(folder, asked) as store:
        asked.play(store, lambda _: None)
    return MatchStore(folder / STORE_FILE)


def rock_paper_scissors(rocks, rounds=40):
    """Return matches of paper, scissors and copies of rock, each pair with equal rounds, in both seatings.

    The better wins nine rounds of ten: did it win all, nothing but the prior would bound its Elo.
    """
    kinds = {f"rock {copy}": 0 for copy in range(rocks)} | {"paper": 1, "scissors": 2}
    episodes = []
    for index, player in enumerate(kinds):
        for other in list(kinds)[index + 1 :]:
            for deal in range(rounds):
                gain = {0: (-1.0) ** deal, 1: 1.0, 2: -1.0}[(kinds[player] - kinds[other]) % 3]
                gain = -gain if deal % 10 == 9 and kinds[player] != kinds[other] else gain
                first = len(episodes)
                episodes.append(match(first, (player, other), (gain, -gain), deal=first))
                episodes.append(match(first + 1, (other, player), (-gain, gain), deal=first))
    return episodes


@pytest.mark.parametrize("deals", [10, 40])
@pytest.mark.parametrize("uneven", [False, True])
def test_level_players_seldom_show_a_win(deals, uneven):
    """Of 300 tables of five level players at most 5 % show a false win; three standard errors are 3.8 %."""
    rng, players, false = np.random.default_rng(deals), 5, 0
    names = tuple("abcde")
    a, b = np.triu_indices(players, 1)
    for _ in range(300):
        stakes = rng.choice([0.1, 1.0, 3.0], len(a)) if uneven else np.ones(len(a))
        leads = rng.choice([-4.0, -2.0, 2.0, 4.0], (deals, len(a))) * stakes
        error = leads.std(axis=0, ddof=1) / np.sqrt(deals)
        counts, half = np.full(len(a), deals), np.full(len(a), 0.5)
        pairs = Pairs(names, a, b, counts, counts, leads.mean(axis=0), error, half, half, counts, counts, counts)
        matrix = payoff_matrix(pairs, None, names)
        false += bool(significant_wins(matrix.margin, matrix.pooled_error(), 0.95, matrix.deals)[0].any())
    assert false / 300 <= 0.088


def test_rock_paper_scissors_played_for_real_is_named_as_a_cycle(tmp_path):
    with tournament(tmp_path, (ROCK, PAPER, SCISSORS), "matrix_rps", 20) as store:
        standings = game_standings(store, RPS, ratings=Ratings())
    [cycle] = standings.cycles
    assert str(cycle) in (
        f"{PAPER} beats {ROCK} beats {SCISSORS} beats {PAPER}",
        f"{ROCK} beats {SCISSORS} beats {PAPER} beats {ROCK}",
        f"{SCISSORS} beats {PAPER} beats {ROCK} beats {SCISSORS}",
    )
    assert cycle.margin == 1.0
    assert [line.elo for line in standings.ranking] == pytest.approx([1500.0] * 3)
    assert [line.weight for line in standings.ranking] == pytest.approx([1 / 3] * 3, abs=1e-5)
    assert [line.nash for line in standings.ranking] == pytest.approx([0.0] * 3, abs=1e-5)
    assert standings.effective_size == pytest.approx(3.0, abs=1e-4)


def test_copies_of_rock_mislead_elo_by_hundreds_of_points_and_leave_nash_averaging_at_zero(tmp_path):
    """The failure of Elo that Balduzzi et al. 2018 begin with: a rating that depends on who else is there."""
    few = game_standings(stored(tmp_path / "few", rock_paper_scissors(1)), RPS, ratings=Ratings())
    many = game_standings(stored(tmp_path / "many", rock_paper_scissors(5)), RPS, ratings=Ratings())
    for standings in (few, many):
        assert [line.nash for line in standings.ranking] == pytest.approx([0.0] * len(standings.ranking), abs=1e-5)
        assert standings.cycles
    before, after = ({line.player: line for line in standings.ranking} for standings in (few, many))
    assert before["paper"].elo == pytest.approx(before["scissors"].elo)
    assert after["paper"].elo - after["scissors"].elo > 300.0
    rocks = sum(line.weight for line in many.ranking if line.player.startswith("rock"))
    assert (rocks, after["paper"].weight) == pytest.approx((1 / 3, 1 / 3), abs=1e-4)


def test_payoffs_are_those_of_head_to_head(tmp_path):
    names = ("equilibrium", "random", "always:bet")
    with tournament(tmp_path, names, "kuhn_poker", 60) as store:
        standings = game_standings(store, KUHN, ratings=Ratings(), anchors=["random"])
        pairs = store.pairs("kuhn_poker")
    matrix, at = standings.matrix, {player: index for index, player in enumerate(standings.matrix.players)}
    for k in range(len(pairs.a)):
        a, b = at[pairs.players[pairs.a[k]]], at[pairs.players[pairs.b[k]]]
        assert matrix.margin[a, b] == pytest.approx(pairs.lead[k] / 2) == -matrix.margin[b, a]
        assert matrix.returns[a, b] == pytest.approx(matrix.margin[a, b]), "a zero-sum game of two"
        assert matrix.matches[a, b] == matrix.matches[b, a] == pairs.n[k]
    by_role = standings.by_role("equilibrium")
    assert {(result.opponent, result.role, result.matches) for result in by_role} == {
        (opponent, role, 30) for opponent in ("random", "always:bet") for role in ("first", "second")
    }
    for opponent in ("random", "always:bet"):
        mean = np.mean([result.returns for result in by_role if result.opponent == opponent])
        assert mean == pytest.approx(matrix.margin[at["equilibrium"], at[opponent]])
    anchor = next(line for line in standings.ranking if line.player == "random")
    assert (anchor.elo, anchor.elo_error) == (1500.0, 0.0)


def test_live_policies_are_left_out_and_circles_that_never_met_are_told_apart(tmp_path):
    episodes = [
        match(0, ("a", "main"), (1.0, -1.0)),
        match(1, ("b", "a"), (1.0, -1.0)),
        match(2, ("a", "b"), (1.0, -1.0)),
    ]
    episodes += [match(3, ("c", "d"), (0.0, 0.0)), match(4, ("b", "e"), (1.0, -1.0)), match(5, ("c", "c"), (1.0, -1.0))]
    standings = game_standings(stored(tmp_path, episodes), RPS, ratings=Ratings(), live=["main"])
    assert [(line.player, line.component) for line in standings.ranking] == [
        ("b", 0),
        ("a", 0),
        ("e", 0),
        ("c", 1),
        ("d", 1),
    ]
    assert standings.matches == 6
    assert np.isnan(standings.matrix.margin[0, 3])
    assert {result.opponent for result in standings.by_role("a")} == {"b", "main"}
    assert np.isnan([result.returns_error for result in standings.by_role("a")]).all(), "of fewer than five deals"
    assert standings.next_pairs[0].deals == 0


def test_ratings_are_told_overall_and_by_role(tmp_path):
    episodes = [match(i, ("a", "b")[:: (-1) ** i], (1.0, -1.0), deal=i // 2) for i in range(20)]
    ratings = Ratings(["b"])
    ratings.update(episodes)
    standings = game_standings(stored(tmp_path, episodes), RPS, ratings=ratings, anchors=["b"])
    for line in standings.ranking:
        assert line.skill == ratings.rating(line.player, "matrix_rps")
        assert set(line.by_role) == {"seat 0", "seat 1"}
        assert line.by_role["seat 0"] == ratings.role_rating(line.player, "matrix_rps", "seat 0")


def test_two_equal_deals_prove_nothing(tmp_path):
    """Three pairs that form a cycle by two deals each, whose spread is 0, among players who vary."""
    episodes, index = [], 0
    for number, pair in enumerate([("a", "b"), ("b", "c"), ("c", "a")] + [("a", "d")] * 20):
        for deal in range(2):
            gain = 1.0 if number < 3 else (-1.0) ** number
            episodes.append(match(index, pair, (gain, -gain), deal=2 * number + deal))
            index += 1
    standings = game_standings(stored(tmp_path, episodes), RPS, ratings=Ratings())
    assert (
        standings.matrix.margin_error[standings.matrix.players.index("a"), standings.matrix.players.index("b")] == 0.0
    )
    assert standings.cycles == []


def test_a_game_without_matches_and_an_unknown_meta_strategy(tmp_path):
    store = stored(tmp_path, [match(0, ("a", "b"), (1.0, -1.0))])
    standings = game_standings(store, KUHN, ratings=Ratings())
    assert standings.ranking == standings.cycles == standings.next_pairs == []
    with pytest.raises(UsageError, match="nash_averaging"):
        game_standings(store, RPS, ratings=Ratings(), solver="nash_averagin")


@pytest.mark.parametrize("solver", ["nash", "uniform", "alpha_rank", "prd"])
def test_every_meta_strategy_is_a_distribution(tmp_path, solver):
    store = stored(tmp_path, rock_paper_scissors(1))
    standings = game_standings(store, RPS, ratings=Ratings(), solver=solver)
    assert [line.weight for line in standings.ranking] == pytest.approx([1 / 3] * 3, abs=1e-3)


def test_a_tournament_is_told_conclusions_first(tmp_path, capsys):
    tournament(tmp_path, (ROCK, PAPER, SCISSORS, "random"), "matrix_rps", 40).close()
    assert main(["standings", str(tmp_path), "--matrix"]) == 0
    printed = capsys.readouterr().out
    assert f"{PAPER} beats {ROCK} beats {SCISSORS}" in printed or f"{ROCK} beats {SCISSORS} beats {PAPER}" in printed
    assert printed.index("A cycle") < printed.index("rank  player")
    assert "1500 ± 0" in printed, "random holds the scale"
    assert "+1.00" in printed
    assert "should play next" in printed
    assert main(["standings", str(tmp_path), "--game", "matrix_rps", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["games"]["matrix_rps"]
    assert document["matrix"]["players"] == [line["player"] for line in document["ranking"]]
    assert document["cycles"][0]["margin"] == 1.0
    assert sum(document["meta_strategy"]["weights"].values()) == pytest.approx(1.0)
    assert main(["standings", str(tmp_path), "--game", "kuhn_poker"]) == 2
    assert "matrix_rps" in capsys.readouterr().err


def test_a_game_of_cooperation_has_no_ranks(tmp_path, capsys):
    tournament(tmp_path, ("random", "always:a0"), "tiny_hanabi", 20).close()
    assert main(["standings", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "All players of a match earn the same." in printed
    assert "mean return with others" in printed
    assert "Elo " not in printed.splitlines()[4]


def test_a_run_leaves_out_who_still_learns_and_marks_the_newest(run_dir, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(run_dir, run)
    with MatchStore(run / STORE_FILE) as store:
        store.add([match(100 + i, ("main", "main-000000"), (1.0, -1.0), "kuhn_poker") for i in range(9)], iteration=9)
    assert main(["standings", str(run), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["games"]["kuhn_poker"]
    assert [line["player"] for line in document["ranking"]] == ["main-000010", "main-000000"]
    assert [line["matches"] for line in document["ranking"]] == [20, 20]
    assert document["matches"] == 29
    for line in document["ranking"]:
        mu, sigma = line["rating"]["mu"], line["rating"]["sigma"]
        assert (line["rating"]["low"], line["rating"]["high"]) == pytest.approx((mu - 1.96 * sigma, mu + 1.96 * sigma))
        assert set(line["by_role"]) == {"first", "second"}


def test_a_run_whose_matches_were_not_kept_says_so(run_dir, tmp_path, capsys):
    old = tmp_path / "old"
    shutil.copytree(run_dir, old)
    (old / STORE_FILE).unlink()
    assert main(["standings", str(old)]) == 0
    printed = capsys.readouterr().out
    assert "before matches were kept" in printed
    assert "exploitability: 0.500 → 0.400" in printed


@pytest.mark.thorough
def test_a_thousand_players_and_a_million_matches(tmp_path):
    """The whole command, start and imports included, in processor time: other work on the machine does not count."""
    number, matches = 1000, 1_000_000
    rng = np.random.default_rng(0)
    skill = rng.normal(size=number)
    pairs = rng.integers(0, number, (matches, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][: matches // 2]
    names = ["random", *[f"main-{index:06d}" for index in range(1, number)]]
    won = rng.random((2, len(pairs))) < 1.0 / (1.0 + np.exp(skill[pairs[:, 1]] - skill[pairs[:, 0]]))
    with MatchStore(tmp_path / STORE_FILE) as store:
        for first in range(0, len(pairs), 25_000):
            batch = []
            for deal in range(first, min(first + 25_000, len(pairs))):
                a, b = names[pairs[deal, 0]], names[pairs[deal, 1]]
                for swap in range(2):
                    gain = 1.0 if won[swap, deal] else -1.0
                    players, returns = ((b, a), (-gain, gain)) if swap else ((a, b), (gain, -gain))
                    request = MatchRequest(2 * deal + swap, "kuhn_poker", deal, deal, players, (False, False))
                    batch.append(Episode(request, (), returns, EndReason.FINISHED))
            store.add(batch)
    question = {"format": "league tournament", "version": 1, "game": "kuhn_poker", "players": names}
    (tmp_path / PLAN_FILE).write_text(json.dumps({**question, "matches": 2, "seed": 0, "stands_for": {}}))
    before, begin = os.times(), time.monotonic()
    command = [sys.executable, "-m", "league", "standings", str(tmp_path)]
    process = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert "1,000,000 matches, 1,000 players" in process.stdout
    assert spent < 5.0, f"{spent:.1f} s of work, {time.monotonic() - begin:.1f} s in all"


@pytest.mark.thorough
def test_the_command_imports_what_a_tournaments_ranking_needs_and_little_else(tmp_path):
    """Scipy, or a run's configuration, takes as long as half a million matches.

    Nobody's win is certain here, and no two are equal.
    """
    rng, names = np.random.default_rng(1), [f"main-{index:06d}" for index in range(6)]
    meetings = [(a, b) for deal in range(3) for index, a in enumerate(names) for b in names[index + 1 :]]
    gains = rng.normal(size=len(meetings)).round(3).tolist()
    episodes = [
        match(n, pair, (gain, -gain), "kuhn_poker") for n, (pair, gain) in enumerate(zip(meetings, gains, strict=True))
    ]
    stored(tmp_path, episodes).close()
    question = {"format": "league tournament", "version": 1, "game": "kuhn_poker", "players": names}
    (tmp_path / PLAN_FILE).write_text(json.dumps({**question, "matches": 2, "seed": 0, "stands_for": {}}))
    code = "import sys; from league.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", code, "standings", str(tmp_path)]
    *told, modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert any("45 matches, 6 players" in line for line in told)
    packages = [name.partition(".")[0] for name in modules.split()]
    assert not LATER & {*packages}
    assert not {"importlib.metadata", "arena.scheduler", "league.config.run"} & {*modules.split()}
    assert sum(package in PACKAGES and package != "games" for package in packages) < 70
    assert len(packages) < 550
