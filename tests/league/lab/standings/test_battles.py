"""Ratings of other people's battles: planted truths, intervals that cover, order, and hostile files."""

import csv
import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python.voting import ranked_pairs, soft_condorcet_optimization
from support.matches.elections import maximal_lotteries, profile

import league
from games.common.errors import UsageError
from league.cli.dispatch import main
from league.lab.standings import battles as module
from league.lab.standings.battle_ratings import rate
from league.lab.standings.battles import battles_of, read_battles
from league.lab.standings.elo import POINTS, elo
from league.population.results.match_store import Pairs
from league.theory.solvers import voting

CIRCLE = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}


def battle(first, second, score, **fields):
    return {"a": first, "b": second, "score": score, **fields}


def planted(strengths, count, seed=0, seat=0.0, ties=0.0, each=1, names=("all",)):
    """Return battles of the model itself: log-odds by strengths and seat; each deal is played ``each`` times."""
    rng, players, found = random.Random(seed), list(strengths), []
    for deal in range(count):
        first, second = rng.sample(players, 2)
        odds = 1 / (1 + math.exp(-(strengths[first] - strengths[second] + seat)))
        score = 0.5 if rng.random() < ties else float(rng.random() < odds)
        game = names[deal % len(names)]
        found += [battle(first, second, score, game=game, deal=str(deal))] * each
    return found


def by_name(ratings):
    return {player.player: player for player in ratings.players}


def test_a_planted_cycle_is_a_set_of_three_leaders():
    names, found = ("rock", "paper", "scissors"), []
    for number in range(200):
        rng = random.Random(number)
        for first, second in [*CIRCLE, *((name, "pawn") for name in names)]:
            score = float(rng.random() < 0.8)
            found.append(battle(first, second, score, deal=str(number)))
            found.append(battle(second, first, 1.0 - score, deal=str(number)))
    ratings = league.ratings(found)
    assert {player.player for player in ratings.players if player.leads} == set(names)
    assert all((player.membership > 0.95) == (player.player != "pawn") for player in ratings.players)
    assert set(zip(ratings.cycle, (*ratings.cycle[1:], ratings.cycle[0]), strict=True)) == CIRCLE
    lottery = {player.player: player.lottery for player in ratings.players}
    assert lottery["pawn"] == pytest.approx(0.0, abs=1e-9)
    assert min(lottery[name] for name in names) > 0.2
    rated = by_name(ratings)
    assert rated["pawn"].rating.high < min(rated[name].rating.low for name in names)


@st.composite
def contests(draw):
    """Return battles of which every pair has 21, with ties, and no two pairs an equally clear result; and votes.

    A battle is two votes for its winner, and a tie one for each: ``votes`` [N, N] counts them.
    """
    each, number, found = 21, draw(st.integers(2, 5)), []
    pairs = [(i, j) for i in range(number) for j in range(i)]
    votes = np.zeros((number, number))
    for (i, j), lead in zip(pairs, draw(st.permutations([2 * k + 1 for k in range(len(pairs))])), strict=True):
        first, second = draw(st.sampled_from([(i, j), (j, i)]))
        lost = draw(st.integers(0, (each - lead) // 2))
        scores = [1.0] * (lost + lead) + [0.0] * lost + [0.5] * (each - lead - 2 * lost)
        votes[first, second], votes[second, first] = 2 * sum(scores), 2 * (each - sum(scores))
        turned = draw(st.booleans())  # who sits first is nothing to these methods
        found += [
            battle(*map(str, (second, first)), 1 - s) if turned else battle(str(first), str(second), s) for s in scores
        ]
    return draw(st.permutations(found)), votes


@pytest.fixture(scope="module")
def lotteries():
    return maximal_lotteries()


@pytest.mark.thorough
@settings(max_examples=25)
@given(contests())
def test_ratings_of_random_battles_are_openspiels_by_every_method(lotteries, contest):
    found, votes = contest
    rated = by_name(rate(battles_of(found), resamples=0))
    rows, election = [rated[str(i)] for i in range(len(votes))], profile(votes)
    theirs = ranked_pairs.RankedPairsVoting().run_election(election)
    assert sorted(range(len(rows)), key=lambda i: rows[i].ranked_pairs) == theirs.ranking
    drawn = lotteries.run_election(election)
    last = max(row.lottery_rank for row in rows)
    for player, score in zip(drawn.ranking, drawn.scores, strict=True):
        level = last - rows[player].lottery_rank
        assert level <= score <= level + 1 + 1e-6
        if rows[player].lottery_rank == 1:
            assert score - level == pytest.approx(rows[player].lottery, abs=1e-6)
    shares = votes / votes.sum()
    rate_of = voting.STEP / (shares + shares.T).sum(axis=1).max()
    descent = soft_condorcet_optimization.SoftCondorcetOptimizer(election, rating_upper_bound=voting.SPAN)
    expected, _ = descent.run_solver(iterations=100, learning_rate=rate_of)
    assert voting.soft_condorcet(votes, steps=100) == pytest.approx(expected, abs=2e-3)
    whole = voting.soft_condorcet(votes)
    assert [row.soft_condorcet for row in rows] == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("copied", ["strong", "weak"])
def test_a_planted_copy_changes_no_ranking_where_that_is_promised(copied):
    strengths = {"strong": 1.0, "middle": 0.2, "weak": -1.0, "poor": -1.5}
    found = planted(strengths, 3000)
    twin = [
        {key: "twin" if value == copied else value for key, value in row.items()}
        for row in found
        if copied in (row["a"], row["b"])
    ]
    between = [battle(copied, "twin", 0.5, game="all", deal="between")]
    before, after = by_name(league.ratings(found)), by_name(league.ratings(found + twin + between))
    others = [name for name in strengths if name != copied]
    for method in ("ranked_pairs", "lottery_rank"):
        ranks = [sorted(others, key=lambda name: getattr(rated[name], method)) for rated in (before, after)]
        assert ranks[0] == ranks[1]
    for name in others:
        assert after[name].lottery == pytest.approx(before[name].lottery, abs=1e-6)
        assert after[name].nash == pytest.approx(before[name].nash, abs=1e-6)
        assert after[name].leads == before[name].leads
    assert after["twin"].leads == after[copied].leads == before[copied].leads


def test_a_flood_of_one_game_moves_nothing_since_every_game_weighs_alike():
    """A wins at chess and B at go; a thousand more of the same games of chess leave their ratings where they are."""
    chess = [battle("a", "b", score, game="chess") for score in (1.0, 1.0, 0.0)]
    chess += [battle("b", "a", 1.0 - row["score"], game="chess") for row in chess]
    go = [battle(row["b"], row["a"], row["score"], game="go") for row in chess]
    few, many = by_name(league.ratings(chess + go)), by_name(league.ratings(chess * 300 + go))
    assert few["a"].score == pytest.approx(many["a"].score) == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert many["a"].rating.mean == pytest.approx(1500.0, abs=1.0)
    assert by_name(league.ratings([{**row, "game": "one"} for row in chess * 300 + go]))["a"].rating.mean > 1540


def test_the_fit_is_elos_where_there_is_no_seat_to_tell():
    """Every battle is there with both seatings, so that the seat is worth 0: the ratings are those of ``elo``."""
    wins = {("a", "b"): (7, 3), ("b", "c"): (6, 2), ("a", "c"): (9, 1)}
    found = []
    for (first, second), (won, lost) in wins.items():
        for score, count in ((1.0, won), (0.0, lost)):
            found += [battle(first, second, score), battle(second, first, 1.0 - score)] * count
    won, lost = np.array([14.0, 12.0, 18.0]), np.array([6.0, 4.0, 2.0])
    number, blank = (won + lost).astype(np.int64), np.zeros(3)
    places = {"players": ("a", "b", "c"), "a": np.array([0, 1, 0]), "b": np.array([1, 2, 2])}
    results = {"n": number, "deals": number, "won": won, "drawn": blank, "lost": lost}
    unused = dict.fromkeys(("lead", "lead_error", "score", "score_error"), blank)
    pairs = Pairs(**places, **results, **unused)
    rated, seat = by_name(league.ratings(found)), league.ratings(found).seats["all"]
    assert [rated[name].rating.mean for name in "abc"] == pytest.approx(elo(pairs).ratings.tolist(), abs=1e-6)
    assert seat.mean == pytest.approx(0.0, abs=1e-6)


def test_what_a_seat_is_worth_is_found_by_game_and_ties_are_half_a_win():
    strengths = {"a": 0.5, "b": 0.0, "c": -0.5}
    found = planted(strengths, 6000, seat=0.4, names=("first counts",)) + planted(strengths, 6000, 1, names=("even",))
    ratings = league.ratings(found)
    seat, even = ratings.seats["first counts"], ratings.seats["even"]
    assert seat.low < 0.4 * POINTS < seat.high
    assert even.low < 0.0 < even.high
    rated = by_name(ratings)
    assert rated["a"].rating.low < 1500 + 0.5 * POINTS < rated["a"].rating.high
    tied = by_name(league.ratings([battle("a", "b", 0.5), battle("b", "a", 0.5)]))
    assert tied["a"].rating.mean == pytest.approx(1500.0)


def test_a_seat_that_the_same_player_always_has_cannot_be_told():
    ratings = league.ratings([battle("a", "b", 1.0), battle("a", "b", 0.0), battle("a", "b", 1.0)])
    assert ratings.seats == {"all": None}
    known = league.ratings([battle("a", "b", 1.0), battle("b", "a", 0.0), battle("a", "b", 1.0)])
    assert known.seats["all"] is not None


@pytest.mark.parametrize("each", [1, 5])
def test_the_intervals_hold_the_truth_also_where_every_deal_is_there_five_times(each):
    strengths = {"a": 0.8, "b": 0.0, "c": -0.8}
    held, widths = 0, []
    for seed in range(100):
        rated = by_name(rate(battles_of(planted(strengths, 150, seed, each=each)), resamples=0))
        low, high = rated["a"].rating.low, rated["a"].rating.high
        held += low <= 1500 + 0.8 * POINTS <= high
        widths.append(high - low)
    assert held >= 90
    assert 60 < np.mean(widths) < 200, "five copies of a deal are one deal"


def test_who_won_everything_has_an_interval_that_says_little():
    rated = by_name(league.ratings([*planted({"a": 0.0, "b": 0.0}, 50), *[battle("best", "a", 1.0, game="all")] * 3]))
    assert rated["best"].rating.high - rated["best"].rating.low > 500


def test_the_order_of_the_lines_changes_nothing_bit_for_bit(tmp_path, capsys):
    found = planted({"a": 0.3, "b": 0.0, "c": -0.3}, 200, ties=0.2, names=("x", "y"))
    texts = []
    for seed in range(3):
        random.Random(seed).shuffle(found)
        path = write(tmp_path / "battles.csv", found)
        assert main(["rate", str(path), "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    assert json.loads(texts[0])["battles"] == 200


def write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_report_is_checked_again_from_the_file(tmp_path, capsys):
    path = write(tmp_path / "battles.csv", planted({"a": 0.3, "b": 0.0}, 40))
    report = tmp_path / "ratings.json"
    assert main(["rate", str(path), "--seed", "7", "--json"]) == 0
    report.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["rate", str(path), "--check", str(report)]) == 0
    assert "follows from these battles" in capsys.readouterr().out
    said = json.loads(report.read_text(encoding="utf-8"))
    said["players"][0]["rating"] += 5
    report.write_text(json.dumps(said), encoding="utf-8")
    assert main(["rate", str(path), "--check", str(report)]) == 2
    assert "does not follow from battles.csv: its players are" in capsys.readouterr().err
    write(path, planted({"a": 0.3, "b": 0.0}, 41))
    assert main(["rate", str(path), "--check", str(report)]) == 2
    assert "made from other battles" in capsys.readouterr().err
    for text in ("[" * 100_000, "{}", "no json"):
        report.write_text(text, encoding="utf-8")
        assert main(["rate", str(path), "--check", str(report)]) == 2
        assert "is not a report" in capsys.readouterr().err


HEAD = "model_a,model_b,winner\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no battles"),
        (HEAD, "has no battles"),
        ("one,two\nx,y\n", "The players are expected in model_a and model_b"),
        (HEAD + "x,y\n", "line 2: 2 fields, but the header has 3"),
        (HEAD + "x,y,model_a\nx,y,z\n", "line 3: the winner is 'z'"),
        (HEAD + "x,x,tie\n", "line 2: x meets itself"),
        (HEAD + ",y,tie\n", "a name of 1 to 200 characters"),
        (HEAD + "x" * 201 + ",y,tie\n", "a name of 1 to 200 characters"),
        ("a,b,score\nx,y,1.5\n", "a score from 0 to 1 is expected, not '1.5'"),
        ("a,b,score\nx,y,nan\n", "a score from 0 to 1"),
        (
            "a,b,winner,score\nx,y,b,0\ny,x,b,0.9\n",
            "line 3: the winner is 'b', but by the score, 0.9 for y, it is another",
        ),
        ("a,b,winner,score\nx,y,tie,0.6\n", "the winner is 'tie', but by the score"),
        ("a,b,winner,score\nx,y,a,0.5\n", "the winner is 'a', but by the score"),
        ("a,b,winner,score\nx,y,a,0.6\ny,x,,1\nx,y,tie,0.5\n", None),
        ("a,a,score\nx,y,1\n", "two columns with the same name"),
        (HEAD + 'x,"y,tie\n', "is not CSV"),
        (HEAD + "x,y," + "z" * 200_000 + "\n", "is not CSV"),
        (HEAD + "x,\0y,tie\n", None),
        ("".join(["a,b,score\n", *[f"p{i},q,1\n" for i in range(300)]]), "has 301 players; the limit is 200"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_line(text, said, tmp_path, capsys):
    path = tmp_path / "battles.csv"
    path.write_text(text, encoding="utf-8")
    status = main(["rate", str(path)])
    shown = capsys.readouterr()
    assert status == (2 if said else 0)
    assert said is None or said in shown.err
    assert "\0" not in shown.out + shown.err


def test_a_file_of_other_bytes_a_missing_one_and_a_long_one_are_refused(tmp_path, capsys, monkeypatch):
    path = tmp_path / "battles.csv"
    path.write_bytes(HEAD.encode() + b"\xff\xfe,y,tie\n")
    assert main(["rate", str(path)]) == 2
    assert "is not text in UTF-8" in capsys.readouterr().err
    assert main(["rate", str(tmp_path / "none.csv")]) == 2
    assert "There is no file" in capsys.readouterr().err
    path.write_text(HEAD + "x,y,tie\n" * 20, encoding="utf-8")
    monkeypatch.setattr(module, "MOST_BATTLES", 10)
    assert main(["rate", str(path)]) == 2
    assert "more than 10 battles" in capsys.readouterr().err
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    with pytest.raises(UsageError, match="the limit is 10"):
        read_battles(path)


def test_names_of_others_do_nothing_to_a_terminal(tmp_path, capsys):
    path = tmp_path / "battles.csv"
    path.write_text(HEAD + "[red]x[/nothing],\x1b[31my,model_a\n" * 3, encoding="utf-8")
    assert main(["rate", str(path)]) == 0
    out = capsys.readouterr().out
    assert "[red]x[/nothing]" in out
    assert "\x1b[31my" not in out
    assert "\\x1b[31my" in out


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        ("model_a,model_b,winner", ["x,y,model_a", "x,y,tie", "y,x,model_b"]),
        ("White , Black,Winner", ["x,y,white", "x,y,draw", "y,x,black"]),
        ("\ufeffplayer_a,player_b,winner", ["x,y,x", "x,y,tie (bothbad)", "y,x,x"]),
        ("score,a,b,comment", ["1,x,y,", '0.5,x,y,"a, b"', "0,y,x,"]),
    ],
)
def test_the_columns_of_several_houses_are_read_alike(head, lines, tmp_path):
    path = tmp_path / "battles.csv"
    path.write_text("\n".join([head, *lines]), encoding="utf-8")
    read = read_battles(path)
    assert read.players == ("x", "y")
    assert sorted(zip(read.first.tolist(), read.second.tolist(), read.score.tolist(), strict=True)) == [
        (0, 1, 0.5),
        (0, 1, 1.0),
        (1, 0, 0.0),
    ]
