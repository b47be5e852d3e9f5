"""Matches until they are decided: right as often as they say, however often one looks, and on all that is bounded."""

import math

import numpy as np
import pytest

from games.common.errors import UsageError
from games.registry import make_game
from league.lab.comparisons.until_decided import Until, compare_until, decide, winner
from league.population.evaluation.head_to_head import A, B, Meeting, Winner, compare
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.confidence_sequence import SHARES, anytime_mean, confidence_interval, looks, wealth


def meet(first, second, game, until, seed=0):
    spec, engines = make_game(game).spec, Engines()
    return compare_until((resolve(first, spec, engines), resolve(second, spec, engines)), until, seed)


def share_ever_decided(observations, confidence=0.95):
    """Return how many of the rows [N, T] of observations are ever decided by a look after each of them."""
    limit = 2.0 / (1.0 - confidence)
    sides = [(wealth(side, 0.5) >= limit).any(axis=-1) for side in (observations, 1.0 - observations)]
    return (sides[0] | sides[1]).mean()


def draws(rng, values, weights, rows, length):
    return np.asarray(values)[np.searchsorted(np.cumsum(weights)[:-1], rng.random((rows, length)))]


def test_wealth_is_what_the_bets_come_to_worked_by_hand():
    assert wealth(np.array([1.0]), 0.5) == pytest.approx([np.mean(1.0 + SHARES)])
    assert wealth(np.array([1.0, 0.0]), 0.5)[-1] == pytest.approx(np.mean((1.0 + SHARES) * (1.0 - SHARES)))
    assert wealth(np.array([0.25] * 3), 0.25) == pytest.approx([1.0] * 3)


def test_the_interval_is_that_of_the_means_that_wealth_does_not_refute():
    observations = np.random.default_rng(3).random(200) ** 2
    low, high = confidence_interval(observations)
    assert wealth(observations, low + 1e-6)[-1] < 40.0 <= wealth(observations, low - 1e-6)[-1]
    assert wealth(1.0 - observations, 1.0 - high + 1e-6)[-1] < 40.0 <= wealth(1.0 - observations, 1.0 - high - 1e-6)[-1]
    assert low < observations.mean() < high
    assert confidence_interval([]) == (0.0, 1.0)


@pytest.mark.parametrize("price", [2.0, 50.0])
def test_a_forfeit_that_costs_more_than_the_game_pays_counts_as_the_worst_loss(price):
    """Else one forfeit would be as much evidence as twelve lost matches, and the interval would promise too much."""
    spec = make_game("kuhn_poker").spec
    for seating, paid in (((A, B), (-price, price)), ((B, A), (price, -price))):
        found = decide(spec, [Meeting(deal, seating, paid) for deal in range(3)], Until())
        assert found.lead.mean == -spec.max_return + spec.min_return
        assert found.winner is Winner.OPEN
        mirrored = decide(spec, [Meeting(deal, seating[::-1], paid) for deal in range(3)], Until())
        assert mirrored.lead.mean == -found.lead.mean
        assert (mirrored.lead.low, mirrored.lead.high) == pytest.approx((-found.lead.high, -found.lead.low))


def test_of_equal_players_few_are_decided_wrongly_though_one_looks_after_each_deal():
    rng = np.random.default_rng(0)
    assert share_ever_decided(draws(rng, (0.0, 0.5, 1.0), (0.3, 0.4, 0.3), 1000, 400)) <= 0.05


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("values", "weights"),
    [
        ((0.0, 0.5, 1.0), (0.3, 0.4, 0.3)),  # win, draw and loss, on both seatings
        ((0.0, 1.0), (0.5, 0.5)),  # as far apart as can be
        ((0.0, 0.625), (0.2, 0.8)),  # skewed, as with a rare great loss
    ],
)
def test_of_10000_matches_between_equal_players_at_most_5_in_100_are_decided_wrongly(values, weights):
    rng = np.random.default_rng(1)
    shares = [share_ever_decided(draws(rng, values, weights, 1000, 2000)) for _ in range(10)]
    assert np.mean(shares) <= 0.05


def test_the_mean_lies_in_every_interval_and_clusters_count_once():
    values = [1.0, -1.0, 3.0, 3.0]
    mean, low, high = anytime_mean(values, "aabb", (-4.0, 4.0))
    assert (low, high) == pytest.approx([8.0 * bound - 4.0 for bound in confidence_interval([0.5, 0.875])])
    assert low < mean == 1.5 < high
    assert anytime_mean([-100.0, 1.0], "ab", (-1.0, 1.0))[1:] == anytime_mean([-1.0, 1.0], "ab", (-1.0, 1.0))[1:]


def test_looks_grow_and_end_with_all_deals():
    assert list(looks(5)) == [5]
    seen = list(looks(1000))
    assert seen[0] == 16
    assert seen[-1] == 1000
    assert seen == sorted(set(seen))
    assert len(seen) <= 5 + math.log(1000 / 16, 1.2)


@pytest.mark.parametrize(
    ("interval", "margin", "expected"),
    [
        ((0.51, 0.6), 0.02, Winner.A),
        ((0.3, 0.49), None, Winner.B),
        ((0.485, 0.515), 0.02, Winner.LEVEL),
        ((0.485, 0.515), None, Winner.OPEN),
        ((0.45, 0.515), 0.02, Winner.OPEN),
    ],
)
def test_what_an_interval_shows(interval, margin, expected):
    assert winner(*interval, margin) is expected


def test_a_stronger_player_is_found_with_the_first_matches_of_a_fixed_sample():
    result = meet("mcts:20", "random", "tic_tac_toe", Until(at_most=400))
    assert result.decision.winner is Winner.A
    assert 16 <= len(result.episodes) < 400
    assert result.decision.lead.low > 0.0
    fixed = compare(
        tuple(resolve(name, result.spec, Engines()) for name in ("mcts:20", "random")), len(result.episodes), 0
    )
    assert fixed.episodes == result.episodes
    assert result.score.low < fixed.score.low  # what it costs to be allowed to look


def test_the_order_of_the_players_turns_the_verdict():
    assert meet("random", "mcts:20", "tic_tac_toe", Until(at_most=400)).decision.winner is Winner.B


def test_equal_players_are_level_within_a_wide_margin_and_open_after_too_few_matches():
    assert meet("random", "random", "kuhn_poker", Until(margin=0.2, at_most=2000)).decision.winner is Winner.LEVEL
    result = meet("random", "random", "kuhn_poker", Until(at_most=40))
    assert result.decision.winner is Winner.OPEN
    assert len(result.episodes) == 40


def test_wrong_numbers_and_games_that_nobody_wins_are_refused_in_a_sentence():
    for until, words in ((Until(0.3), "at least 0.5"), (Until(1.0), "below 1"), (Until(0.95, 0.6), "below 0.5")):
        with pytest.raises(UsageError, match=words):
            meet("random", "random", "kuhn_poker", until)
    with pytest.raises(UsageError, match="both players get the same"):
        meet("random", "random", "tiny_hanabi", Until())
