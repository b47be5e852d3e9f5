"""Social choice: OpenSpiel's answers, known elections, and what each method promises when a copy of a player enters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python.voting import ranked_pairs, soft_condorcet_optimization
from support.matches.elections import maximal_lotteries, profile

from league.theory.solvers import voting


@pytest.fixture(scope="module")
def lotteries():
    return maximal_lotteries()


CYCLE = np.array([[0.0, 0.4, -0.2, 0.5], [-0.4, 0.0, 0.3, 0.6], [0.2, -0.3, 0.0, 0.7], [-0.5, -0.6, -0.7, 0.0]])


@st.composite
def elections(draw, most=6):
    """Return margins [N, N] that are odd and all different in size, so that every method has one answer."""
    number = draw(st.integers(2, most))
    pairs = [(i, j) for i in range(number) for j in range(i)]
    sizes = draw(st.permutations([2 * k + 1 for k in range(len(pairs))]))
    signs = draw(st.lists(st.sampled_from([1, -1]), min_size=len(pairs), max_size=len(pairs)))
    margins = np.zeros((number, number))
    for (i, j), size, sign in zip(pairs, sizes, signs, strict=True):
        margins[i, j], margins[j, i] = sign * size, -sign * size
    return margins


def cloned(margins, player, lead=0.0):
    """Return the margins with a copy of a player, last, whom the player leads by so much."""
    number = len(margins)
    grown = np.zeros((number + 1, number + 1))
    grown[:number, :number], grown[number, :number], grown[:number, number] = margins, margins[player], -margins[player]
    grown[player, number], grown[number, player] = lead, -lead
    return grown


@settings(max_examples=60)
@given(elections())
def test_ranked_pairs_are_openspiels(margins):
    outcome = ranked_pairs.RankedPairsVoting().run_election(profile(np.maximum(margins, 0)))
    assert np.argsort(voting.ranked_pairs(margins)).tolist() == outcome.ranking


@settings(max_examples=60)
@given(elections())
def test_lotteries_after_each_other_are_openspiels(lotteries, margins):
    outcome = lotteries.run_election(profile(np.maximum(margins, 0)))
    scores = dict(zip(outcome.ranking, outcome.scores, strict=True))
    levels, drawn = voting.lottery_ranks(margins), voting.maximal_lottery(margins)
    for player, score in scores.items():
        level = levels.max() - levels[player]
        assert level <= score <= level + 1 + 1e-6
        if levels[player] == 0:
            assert score - level == pytest.approx(drawn[player], abs=1e-6)
    assert (drawn @ margins >= -1e-6 * np.abs(margins).max()).all(), "no player beats the lottery"


@pytest.mark.parametrize("seed", range(3))
def test_soft_condorcet_is_openspiels_descent(seed):
    wins = np.random.default_rng(seed).integers(0, 4, (5, 5)).astype(np.float64)
    np.fill_diagonal(wins, 0.0)
    shares = wins / wins.sum()
    rate = voting.STEP / (shares + shares.T).sum(axis=1).max()
    theirs = soft_condorcet_optimization.SoftCondorcetOptimizer(profile(wins), rating_upper_bound=voting.SPAN)
    ratings, _ = theirs.run_solver(iterations=300, learning_rate=rate)
    assert voting.soft_condorcet(wins, steps=300) == pytest.approx(ratings, abs=2e-3)


def test_soft_condorcet_puts_a_clear_order_in_order():
    wins = np.array([[0.0, 8.0, 9.0], [2.0, 0.0, 7.0], [1.0, 3.0, 0.0]])
    assert np.argsort(-voting.soft_condorcet(wins)).tolist() == [0, 1, 2]


def test_a_cycle_that_beats_the_rest_leads_together():
    assert voting.leaders(CYCLE).tolist() == [True, True, True, False]
    assert voting.maximal_lottery(CYCLE) == pytest.approx([1 / 3, 2 / 9, 4 / 9, 0.0])
    assert voting.lottery_ranks(CYCLE).tolist() == [0, 0, 0, 1]
    assert voting.ranked_pairs(CYCLE).tolist() == [0, 1, 2, 3], "the weakest win of the cycle is not locked"


def test_an_even_cycle_is_a_tie_of_all_methods():
    even = np.sign(CYCLE)
    assert voting.ranked_pairs(even).tolist() == voting.lottery_ranks(even).tolist() == [0, 0, 0, 1]
    ratings = voting.soft_condorcet((even + 1) / 2 * (1 - np.eye(4)))
    assert ratings[:3] == pytest.approx(ratings[0])
    assert ratings[0] > ratings[3]


def test_what_is_no_order_is_an_error_and_no_loop_without_end(monkeypatch):
    circle = np.array([[0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0]], bool)
    with pytest.raises(RuntimeError, match=r"cycle among players \[0, 1, 2, 3\]"):
        voting._levels(circle)
    below = np.array([[0, 1, 1], [0, 0, 1], [0, 1, 0]], bool)  # the first is above two that are above each other
    with pytest.raises(RuntimeError, match=r"cycle among players \[1, 2\]"):
        voting._levels(below)
    monkeypatch.setattr(voting, "maximal_lottery", lambda margins: np.full(len(margins), np.nan))
    with pytest.raises(RuntimeError, match=r"over players \[0, 1, 2, 3\] draws none"):
        voting.lottery_ranks(CYCLE)


@settings(max_examples=60)
@given(st.integers(1, 6), st.data())
def test_ranked_pairs_end_whatever_the_margins(number, data):
    """With equal margins, and players that never met, what is locked is an order all the same."""
    margins = np.zeros((number, number))
    for i in range(number):
        for j in range(i):
            margins[i, j] = data.draw(st.sampled_from([-0.5, -0.25, 0.0, 0.25, 0.5, np.nan]))
            margins[j, i] = -margins[i, j]
    ranks = voting.ranked_pairs(margins)
    assert {*ranks.tolist()} == {*range(ranks.max() + 1)}
    alone = [i for i in range(number) if all(margins[i, j] > 0 for j in range(number) if j != i)]
    assert all((ranks > 0)[[j for j in range(number) if j != i]].all() and ranks[i] == 0 for i in alone)


def test_who_beats_everybody_leads_alone_and_who_never_met_is_not_beaten():
    margins = np.array([[0.0, 0.1, 0.2], [-0.1, 0.0, np.nan], [-0.2, np.nan, 0.0]])
    assert voting.leaders(margins).tolist() == [True, False, False]
    margins[0, 2] = margins[2, 0] = np.nan
    assert voting.leaders(margins).all(), "a set without the second has a member that did not beat the second"
    assert voting.leaders(np.zeros((3, 3))).all()
    assert voting.leaders(np.zeros((1, 1))).tolist() == [True]


@settings(max_examples=40)
@given(elections(), st.data())
def test_a_copy_of_a_player_changes_nothing_for_the_others(margins, data):
    """Promised by ranked pairs, lotteries (Nash averaging) and the leaders; Soft Condorcet does not promise it."""
    player = data.draw(st.integers(0, len(margins) - 1))
    grown, others = cloned(margins, player), [i for i in range(len(margins)) if i != player]
    before, after = voting.maximal_lottery(margins), voting.maximal_lottery(grown)
    assert after[others] == pytest.approx(before[others], abs=1e-6)
    assert after[player] == pytest.approx(before[player] / 2, abs=1e-6)
    assert (grown @ after)[:-1] == pytest.approx(margins @ before, abs=1e-4)
    assert voting.leaders(grown)[:-1].tolist() == voting.leaders(margins).tolist()
    for ranks in (voting.ranked_pairs, voting.lottery_ranks):
        assert order(ranks(grown)[others]) == order(ranks(margins)[others])
    led = cloned(margins, player, lead=0.5)  # a copy that is a little worse; less than any other win
    assert order(voting.ranked_pairs(led)[others]) == order(voting.ranked_pairs(margins)[others])
    assert voting.leaders(led)[others].tolist() == voting.leaders(margins)[others].tolist()


def order(ranks):
    """Return who is before whom [N, N]."""
    return (ranks[:, None] < ranks).tolist()


@settings(max_examples=40)
@given(elections(), st.randoms(use_true_random=False))
def test_the_order_of_players_changes_nothing(margins, rng):
    moved = list(range(len(margins)))
    rng.shuffle(moved)
    again = margins[np.ix_(moved, moved)]
    for method in (voting.leaders, voting.ranked_pairs, voting.lottery_ranks):
        assert method(again).tolist() == method(margins)[moved].tolist()
    wins = np.maximum(margins, 0.0)
    soft = voting.soft_condorcet(wins[np.ix_(moved, moved)], steps=50)
    assert soft == pytest.approx(voting.soft_condorcet(wins, steps=50)[moved], abs=1e-9)
