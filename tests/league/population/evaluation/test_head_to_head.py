"""Head to head: the intervals have the coverage they claim, and known players get their known results."""

import math
import random

import pytest

from arena.records import EndReason, Episode, MatchRequest, Turn
from arena.samplers.scripted import Random
from games.common.errors import UsageError
from games.registry import make_game
from league.population.evaluation.head_to_head import (
    A,
    B,
    ScheduledMatch,
    compare,
    mean_return,
    score,
    seatings,
    summarise,
)
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.theory.statistics import clustered_mean, student_quantile
from roles.cards import load_roles, with_overrides

KUHN = make_game("kuhn_poker").spec
UNIT = (0.0, 1.0)


def meet(first, second, game, matches, seed=0):
    spec, engines = make_game(game).spec, Engines()
    return compare((resolve(first, spec, engines), resolve(second, spec, engines)), matches, seed)


def test_a_clustered_interval_equals_the_hand_worked_one():
    # Deals {0, 2}, {4, 6}, {3, 3}: mean 3; deviations sum to -4, 4 and 0 within the deals.
    # Var = 3/2 * (16 + 16 + 0) / 36 = 4/3; t(0.975, 2) = 4.302653.
    estimate = clustered_mean([0, 2, 4, 6, 3, 3], "aabbcc", (-100.0, 100.0))
    half = 4.302653 * math.sqrt(4 / 3)
    assert estimate == pytest.approx((3.0, 3.0 - half, 3.0 + half), abs=1e-5)


def test_with_one_match_a_cluster_it_is_the_t_interval_of_the_mean():
    estimate = clustered_mean([1.0, 2.0, 3.0, 6.0], range(4), (-100.0, 100.0))
    half = 3.182446 * math.sqrt(14 / 3 / 4)  # t(0.975, 3), and the sample variance 14/3
    assert estimate == pytest.approx((3.0, 3.0 - half, 3.0 + half), abs=1e-5)


def test_students_quantiles_are_those_of_the_tables():
    assert [student_quantile(n) for n in (1, 10, 1000)] == pytest.approx([12.7062, 2.2281, 1.9623], abs=1e-4)


def test_the_interval_covers_the_truth_as_often_as_it_claims_though_deals_are_correlated():
    rng, covered, rounds = random.Random(1), 0, 2000
    for _ in range(rounds):
        values, deals = [], []
        for deal in range(20):
            luck = rng.gauss(0.0, 1.0)  # shared by the deal's two matches
            values += [luck + rng.gauss(0.0, 0.5) for _ in range(2)]
            deals += [deal, deal]
        low, high = clustered_mean(values, deals, (-50.0, 50.0))[1:]
        covered += low <= 0.0 <= high
    assert 0.935 <= covered / rounds <= 0.965  # three standard errors about 0.95


def test_one_deal_has_no_interval_and_equal_deals_do_not_claim_certainty():
    assert clustered_mean([1.0, 0.0], "aa", UNIT) == (0.5, None, None)
    mean, low, high = clustered_mean([1.0] * 40, [i // 2 for i in range(40)], UNIT)
    assert (mean, high) == (1.0, 1.0)
    assert low == pytest.approx(0.025 ** (1 / 20))  # Clopper and Pearson's bound for 20 of 20
    mean, low, high = clustered_mean([0.5, 0.5], "ab", UNIT)
    assert low < mean < high


def test_scores_compare_the_seats_of_one_player_with_those_of_the_other():
    assert score((1.0, -1.0), (A, B)) == 1.0
    assert score((1.0, -1.0), (B, A)) == 0.0
    assert score((2.0, 2.0), (A, B)) == 0.5
    # Three seats: A's 3 beats B's 1 and ties with B's 3.
    assert score((3.0, 1.0, 3.0), (A, B, B)) == 0.75
    assert score((3.0, 1.0, 3.0), (A, B, A), [2]) == 1.0
    assert mean_return((3.0, 1.0, 4.0), (A, B, A), A) == 3.5


def test_every_seating_has_both_players_and_occurs_equally_often():
    three = make_game("kuhn_poker(players=3)").spec
    assert seatings(make_game("kuhn_poker").spec) == [(A, B), (B, A)]
    assert len(seatings(three)) == 6
    result = meet("random", "random", "kuhn_poker(players=3)", 13)
    assert len(result.episodes) == 18  # rounded up to whole deals
    by_deal = [match.request.deal_seed for match in result.matches]
    assert len(set(by_deal)) == 3
    assert {match.seating for match in result.matches if match.deal == 0} == set(seatings(three))


def test_of_many_seats_one_player_has_each_in_turn_alone():
    found = seatings(make_game("public_goods(seats=16)").spec)
    assert len(found) == len(set(found)) == 32
    assert {sum(seating) for seating in found} == {1, 15}


def test_equilibrium_against_itself_gets_the_value_of_kuhn_poker():
    result = meet("equilibrium", "equilibrium", "kuhn_poker", 6000)
    first = result.by_role["first"].returns
    assert first.low < -1 / 18 < first.high
    assert result.by_role["second"].returns.low < 1 / 18 < result.by_role["second"].returns.high
    assert result.lead.low < 0.0 < result.lead.high
    assert result.illegal_rates == (0.0, 0.0)


def test_tree_search_beats_random_and_the_seeds_fix_everything():
    result = meet("mcts:20", "random", "tic_tac_toe", 60)
    assert result.lead.low > 0.0
    again = meet("mcts:20", "random", "tic_tac_toe", 60)
    assert [e.returns for e in result.episodes] == [e.returns for e in again.episodes]
    other = meet("mcts:20", "random", "tic_tac_toe", 60, seed=1)
    assert [e.turns for e in result.episodes] != [e.turns for e in other.episodes]


def test_a_cooperative_game_reports_the_share_of_its_optimum():
    result = meet("random", "random", "tiny_hanabi", 4000)
    assert result.returns[A] == result.returns[B]
    exact = 67 / 18  # uniform play of tiny_hanabi, from its payoff table
    assert result.returns[A].low < exact < result.returns[A].high
    assert result.share_of_optimum == result.returns[A].mean / 10.0
    assert meet("random", "random", "kuhn_poker", 2).share_of_optimum is None


def test_impossible_matches_are_refused():
    with pytest.raises(UsageError, match="at least one match"):
        meet("random", "random", "kuhn_poker", 0)


def test_teams_of_one_seat_are_compared_on_the_same_deals():
    result = meet("scripted:optimal", "scripted:poor", "lookup_chain(hops=3)", 120)
    assert {match.seating for match in result.matches} == {(A,), (B,)}
    assert result.returns[A].mean == 1.0
    optimal, poor = result.episodes[::2], result.episodes[1::2]
    assert [e.turns[0].observation for e in optimal] == [e.turns[0].observation for e in poor]
    wins = [0.5 + 0.5 * (episode.returns[0] < 1.0) for episode in poor]
    assert result.score.mean == pytest.approx(sum(wins) / len(wins))
    assert result.lead.mean == pytest.approx(1.0 - result.returns[B].mean)
    assert result.by_role["planner"].matches == 60
    assert result.share_of_optimum == 1.0
    assert {child.request.players for episode in poor for child in episode.children} == {("scripted:poor",)}


class Noting(Random):
    """Plays at random, and notes under which player and card it was asked."""

    def __init__(self):
        self.asked = set()

    def sample(self, requests):
        self.asked |= {(request.player, request.role.seat, request.role.temperature) for request in requests}
        return super().sample(requests)


def test_each_player_plays_by_its_own_cards_in_every_seating_and_draws_by_its_own_seeds():
    engine, temperatures = Noting(), {"a": 0.5, "b": 2.0}
    players = [
        Player(
            name,
            KUHN,
            engine,
            tuple(with_overrides(role, temperature=temperature) for role in load_roles(KUHN)),
            (((name, 1.0),),) * 2,
        )
        for name, temperature in temperatures.items()
    ]
    result = compare((players[A], players[B]), 20, 0)
    assert engine.asked == {(name, seat, value) for name, value in temperatures.items() for seat in (0, 1)}
    assert len({match.request.sample_seed for match in result.matches}) == 20
    assert len({match.request.deal_seed for match in result.matches}) == 10


def test_illegal_replies_are_those_of_the_player_who_gave_them():
    """A gives two replies, both legal, and B three, two of them illegal, in whichever seat they sit."""
    scheduled = [
        ScheduledMatch(0, seating, MatchRequest(index, "kuhn_poker", 0, index, ("x", "x"), (False, False)))
        for index, seating in enumerate([(A, B), (B, A)])
    ]
    legal, illegal = "pass", None
    replies = [[(0, legal), (1, illegal)], [(0, legal), (1, legal), (0, illegal)]]
    episodes = [
        Episode(
            match.request,
            tuple(Turn(seat, "", "x", "", ("pass",), "", action, 0.0, None) for seat, action in given),
            (1.0, -1.0),
            EndReason.FINISHED,
        )
        for match, given in zip(scheduled, replies, strict=True)
    ]
    result = summarise(("a", "b"), KUHN, 0, ("first", "second"), scheduled, episodes)
    assert result.illegal_rates == pytest.approx((0.0, 2 / 3))
