"""Ratings: the published Plackett-Luce update, invariances, anchors, exact round trips."""

from __future__ import annotations

import json
import math
import random

import pytest

from arena.records import EndReason, Episode, MatchRequest, Turn
from league.population.results.ratings import PlayerRating, Ratings


def episode(
    index: int, players: tuple[str, ...], returns: tuple[float, ...], game: str = "toy", deal: int | None = None
) -> Episode:
    request = MatchRequest(index, game, index if deal is None else deal, index, players, (False,) * len(players))
    return Episode(request, (), returns, EndReason.FINISHED)


def matches(count: int, skills: dict[str, float], seed: int = 0) -> list[Episode]:
    """Return matches of random pairs, won with the Bradley-Terry probability of the skills."""
    rng = random.Random(seed)
    made = []
    for index in range(count):
        a, b = rng.sample(sorted(skills), 2)
        won = rng.random() < 1 / (1 + math.exp(skills[b] - skills[a]))
        made.append(episode(index, (a, b), (1.0, -1.0) if won else (-1.0, 1.0)))
    return made


def test_a_newcomer_has_the_prior() -> None:
    assert Ratings().rating("a", "toy") == pytest.approx((25.0, 25.0 / 3))
    assert PlayerRating("a", *Ratings().rating("a", "toy")).ordinal == pytest.approx(0.0)


def test_one_win_moves_ratings_as_weng_and_lin_say() -> None:
    """Weng and Lin 2011, algorithm 4, for two newcomers: p = 1/2, c² = 2 (σ² + β²), γ = σ/c."""
    ratings = Ratings()
    ratings.update([episode(0, ("a", "b"), (3.0, -3.0))])
    sigma2, beta2 = (25 / 3) ** 2, (25 / 6) ** 2
    c = math.sqrt(2 * (sigma2 + beta2))
    omega = sigma2 / c * 0.5
    delta = math.sqrt(sigma2) / c * sigma2 / c**2 * 0.25
    sigma = math.sqrt(sigma2 * (1 - delta))
    assert ratings.rating("a", "toy") == pytest.approx((25 + omega, sigma), rel=1e-9)
    assert ratings.rating("b", "toy") == pytest.approx((25 - omega, sigma), rel=1e-9)


def test_a_draw_between_equals_moves_no_mean() -> None:
    ratings = Ratings()
    ratings.update([episode(0, ("a", "b"), (0.0, 0.0))])
    assert ratings.rating("a", "toy")[0] == ratings.rating("b", "toy")[0] == 25.0


def test_each_match_of_a_deal_counts_once_however_many_seats_a_player_holds() -> None:
    """As the only one of three a earns 3, and with two seats 0 and 0: 1.5 a match, as b does, though 1 a seat."""
    ratings = Ratings()
    ratings.update(
        [
            episode(1, ("a", "b", "a"), (0.0, 1.5, 0.0), deal=7),
            episode(0, ("b", "b", "a"), (1.0, 2.0, 3.0), deal=7),
        ]
    )
    assert ratings.rating("a", "toy")[0] == ratings.rating("b", "toy")[0] == 25.0


def test_a_deal_in_which_both_earned_the_same_is_a_draw_whatever_doubles_add_up_to() -> None:
    """(0.1 + 0.2) / 2 is 0.15 and a little more in doubles: more than the mean of 0.15 and 0.15."""
    assert (0.1 + 0.2) / 2 > 0.15
    ratings = Ratings()
    ratings.update([episode(0, ("a", "b"), (0.1, 0.15), deal=7), episode(1, ("b", "a"), (0.15, 0.2), deal=7)])
    assert ratings.rating("a", "toy")[0] == ratings.rating("b", "toy")[0] == 25.0


def test_mirror_matches_change_nothing() -> None:
    ratings = Ratings()
    ratings.update([episode(i, ("a", "a"), (1.0, -1.0)) for i in range(50)])
    assert ratings.ranking("toy") == []
    assert ratings.rating("a", "toy") == pytest.approx((25.0, 25.0 / 3))


def test_the_order_of_a_batch_does_not_matter_but_its_indices_do() -> None:
    batch = matches(200, {"a": 0.0, "b": 1.0, "c": 2.0})
    ordered, shuffled = Ratings(), Ratings()
    ordered.update(batch)
    shuffled.update(random.Random(1).sample(batch, len(batch)))
    assert ordered.to_json() == shuffled.to_json()


def test_standings_find_the_true_order() -> None:
    ratings = Ratings()
    ratings.update(matches(600, {"weak": 0.0, "middle": 1.5, "strong": 3.0}))
    standings = ratings.ranking("toy")
    assert [line.player for line in standings] == ["strong", "middle", "weak"]
    for line in standings:
        assert line.ordinal == line.mu - 3 * line.sigma
        assert line.sigma < 2.0


def test_seats_of_three_are_one_ranking_and_a_player_with_two_seats_is_rated_once() -> None:
    ratings = Ratings()
    ratings.update([episode(0, ("a", "b", "c"), (2.0, 0.0, -2.0))])
    (a, _), (b, _), (c, _) = (ratings.rating(player, "toy") for player in "abc")
    assert a > b > c
    shared = Ratings()
    shared.update([episode(0, ("a", "b", "b"), (0.0, 2.0, -2.0))])
    assert shared.rating("a", "toy")[0] == shared.rating("b", "toy")[0] == 25.0, "b's mean return equals a's"


def test_games_are_rated_apart() -> None:
    ratings = Ratings()
    ratings.update([episode(0, ("a", "b"), (1.0, -1.0)), episode(1, ("b", "a"), (1.0, -1.0), game="other")])
    assert ratings.rating("a", "toy")[0] > 25.0 > ratings.rating("a", "other")[0]


def test_an_anchor_stays_where_it_is_and_the_others_move_about_it() -> None:
    ratings = Ratings(anchors=["random"])
    before = ratings.rating("random", "toy")
    ratings.update(matches(300, {"random": 0.0, "strong": 2.0, "weak": -2.0}))
    assert ratings.rating("random", "toy") == before
    assert before[0] == 25.0
    assert ratings.rating("weak", "toy")[0] < 25.0 < ratings.rating("strong", "toy")[0]


def test_json_round_trip_is_exact_even_in_the_middle() -> None:
    batch = matches(60, {"random": 0.0, "a": 1.0, "b": 2.0})
    unbroken, halted = Ratings(["random"]), Ratings(["random"])
    unbroken.update(batch)
    halted.update(batch[:30])
    resumed = Ratings.from_json(json.loads(json.dumps(halted.to_json())))
    assert resumed.to_json() == halted.to_json()
    resumed.update(batch[30:])
    assert json.dumps(resumed.to_json()) == json.dumps(unbroken.to_json())
    assert resumed.ranking("toy") == unbroken.ranking("toy")


def test_the_matches_of_a_deal_are_one_comparison_whose_luck_cancels() -> None:
    """Both hold the winning cards once: a draw between equals, which moves no mean, whatever the cards were worth."""
    ratings = Ratings()
    for deal in range(50):
        ratings.update(
            [episode(2 * deal, ("a", "b"), (2, -2), deal=deal), episode(2 * deal + 1, ("b", "a"), (2, -2), deal=deal)]
        )
    assert ratings.rating("a", "toy")[0] == ratings.rating("b", "toy")[0] == 25.0
    once, doubled = Ratings(), Ratings()
    once.update([episode(0, ("a", "b"), (1.0, -1.0))])
    doubled.update([episode(0, ("a", "b"), (2, -2), deal=0), episode(1, ("b", "a"), (1, -1), deal=0)])
    assert doubled.rating("a", "toy") == once.rating("a", "toy"), "two matches of one deal are one comparison"


def moves_first(count: int, skills: dict[str, float], advantage: float, seed: int = 0) -> list[Episode]:
    """Return deals of random pairs in both seatings; the first seat's log-odds of winning have ``advantage`` added."""
    rng, made = random.Random(seed), []
    for deal in range(count):
        pair = rng.sample(sorted(skills), 2)
        for players in (tuple(pair), tuple(pair[::-1])):
            odds = skills[players[0]] - skills[players[1]] + advantage
            won = rng.random() < 1 / (1 + math.exp(-odds))
            made.append(episode(len(made), players, (1.0, -1.0) if won else (-1.0, 1.0), deal=deal))
    return made


def test_the_advantage_of_moving_first_is_no_skill() -> None:
    """Equal players of a game that the first seat wins three times in four are as good as the anchor in either role."""
    ratings = Ratings(["random"])
    ratings.update(moves_first(1500, {"random": 0.0, "a": 0.0, "b": 0.0}, advantage=math.log(3)))
    assert ratings.roles("toy") == ["seat 0", "seat 1"]
    for role in ratings.roles("toy"):
        assert ratings.role_rating("random", "toy", role) == (25.0, 0.0)
        for player in ("a", "b"):
            mu, sigma = ratings.role_rating(player, "toy", role)
            assert abs(mu - 25.0) < 1.96 * sigma
            assert sigma < 2.0
    raw = ratings.to_json()["roles"]["toy"]
    assert raw["seat 0"]["random"][0] - raw["seat 1"]["random"][0] > 2.0, "the advantage is there, and is taken out"


def test_strong_as_first_and_weak_as_second_shows() -> None:
    """A player may be good in one role only: its log-odds against equals are 2 as first and -2 as second.

    It takes a third player: of two alone, it could as well be that whoever moves first has the advantage.
    """
    rng, made = random.Random(1), []
    for deal in range(1500):
        pair = rng.sample(["lopsided", "random", "plain"], 2)
        for players in (tuple(pair), tuple(pair[::-1])):
            won = rng.random() < 1 / (1 + math.exp(-2.0 * ("lopsided" in players)))
            made.append(episode(len(made), players, (1.0, -1.0) if won else (-1.0, 1.0), deal=deal))
    ratings = Ratings(["random"])
    ratings.update(made)
    first, second = (ratings.role_rating("lopsided", "toy", f"seat {seat}") for seat in range(2))
    assert first[0] - 1.96 * first[1] > 25.0 > second[0] + 1.96 * second[1]
    for seat in range(2):
        mu, sigma = ratings.role_rating("plain", "toy", f"seat {seat}")
        assert abs(mu - 25.0) < 1.96 * sigma
    mu, sigma = ratings.rating("lopsided", "toy")
    assert abs(mu - 25.0) < 3 * sigma


def test_roles_have_the_names_of_the_turns_and_mirror_matches_and_strangers_have_none() -> None:
    spoke = Turn(0, "bidder", "a", "", ("x",), "x", "x", 1.0, None)
    first = episode(0, ("a", "b"), (1.0, -1.0))
    ratings = Ratings()
    ratings.update([first._replace(turns=(spoke,)), episode(1, ("c", "c"), (1.0, -1.0))])
    assert ratings.roles("toy") == ["bidder", "seat 1"]
    assert ratings.role_rating("c", "toy", "bidder") is ratings.role_rating("b", "toy", "bidder") is None


def test_ratings_of_before_there_were_roles_are_read() -> None:
    old = {"anchors": ["random"], "ratings": {"toy": {"a": [30.0, 2.0]}}}
    ratings = Ratings.from_json(old)
    assert ratings.rating("a", "toy") == (30.0, 2.0)
    assert ratings.roles("toy") == []
    ratings.update([episode(0, ("a", "random"), (1.0, -1.0))])
    assert ratings.roles("toy") == ["seat 0", "seat 1"]


@pytest.mark.parametrize(
    "skill", [None, [], [25.0], [25.0, 8.0, 1.0], ["x", 1.0], [math.nan, 1.0], [1.0, math.inf], [25.0, -1.0], [[], 1.0]]
)
def test_what_is_no_rating_is_refused(skill) -> None:
    with pytest.raises((ValueError, TypeError)):
        Ratings.from_json({"anchors": [], "ratings": {"toy": {"a": skill}}})
    with pytest.raises((ValueError, TypeError)):
        Ratings.from_json({"anchors": [], "ratings": {}, "roles": {"toy": {"first": {"a": skill}}}})
