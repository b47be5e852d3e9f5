"""The draw: shares, seatings, seeds, and opponents as often as the rules' formulas say."""

from __future__ import annotations

import timeit
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.matches.draws import draw, opponents, spec

from arena.records import MatchRequest
from games.common.errors import UsageError
from league.config.matchmaking import MatchmakingConfig
from league.population.matchmaking.draw import apportion
from league.population.matchmaking.opponent_pool import prioritised


def test_an_empty_population_means_self_play_with_every_seat_trained() -> None:
    for past in (0, {}, {"main": []}):
        matches = draw(past=past, config=MatchmakingConfig(self_play=0.0, fictitious=1.0))
        assert len(matches) == 512
        assert {(m.players, m.trained, m.rule) for m in matches} == {(("main", "main"), (True, True), "self_play")}


def test_shares_follow_the_weights() -> None:
    matches = draw(config=MatchmakingConfig(self_play=0.5, fictitious=0.3, pfsp=0.2), matches=1000)
    assert Counter(match.rule for match in matches) == {"self_play": 500, "fictitious": 300, "pfsp": 200}


def test_what_whole_deals_leave_over_goes_to_self_play() -> None:
    matches = draw(config=MatchmakingConfig(self_play=0.5, fictitious=0.5), matches=10)
    assert Counter(match.rule for match in matches) == {"self_play": 6, "fictitious": 4}
    without = draw(config=MatchmakingConfig(self_play=0.0, fictitious=1.0), matches=11)
    assert Counter(match.rule for match in without) == {"fictitious": 10}
    with pytest.raises(UsageError, match="1 matches are too few for the 2 seatings"):
        draw(config=MatchmakingConfig(self_play=0.0, fictitious=1.0), matches=1)


@settings(max_examples=60, deadline=None)
@given(
    weights=st.tuples(*[st.floats(0.0, 1.0)] * 3).filter(any),
    live=st.sampled_from([("main", "main"), ("a", "b"), ("main",) * 3, ("a", "b", "a"), ("a", "b", "c")]),
    population=st.integers(1, 9),
    limit=st.integers(1, 8),
    iteration=st.integers(0, 100),
)
def test_every_seating_of_every_deal_is_played(
    weights: tuple[float, float, float], live: tuple[str, ...], population: int, limit: int, iteration: int
) -> None:
    self_play, fictitious, pfsp = weights
    config = MatchmakingConfig(self_play=self_play, fictitious=fictitious, pfsp=pfsp, opponents=limit)
    past = {policy: [f"{policy}-{step}" for step in range(population)] for policy in live}
    matches = draw(past=past, live=live, config=config, matches=60, iteration=iteration)
    assert [match.index for match in matches] == list(range(1000, 1000 + len(matches)))
    assert 60 - 2 * (len(live) - 1) <= len(matches) <= 60
    assert len(opponents(matches, live)) <= max(limit, len(set(live)))
    against_past = [match for match in matches if match.rule != "self_play"]
    for match in against_past:
        assert sum(match.trained) == 1
        for player, policy, trained in zip(match.players, live, match.trained, strict=True):
            assert player == policy if trained else player in past[policy]
    deals = Counter((match.deal_seed, match.rule) for match in against_past)
    assert set(deals.values()) <= {len(live)}
    seats = Counter(match.trained.index(True) for match in against_past)
    assert len(set(seats.values())) <= 1, "each seat is trained equally often"
    if len(set(live)) == 1:
        held = [Counter(match.players[seat] for match in against_past) for seat in range(len(live))]
        assert all(counts == held[0] for counts in held), "each opponent holds each seat equally often"


def test_the_share_of_a_rule_that_finds_nobody_goes_to_self_play() -> None:
    """Nothing is forgotten at a rate of 1/2 against everybody; the other rules keep their shares."""
    matches = draw(config=MatchmakingConfig(self_play=0.5, fictitious=0.3, verification=0.2), matches=1000)
    assert Counter(match.rule for match in matches) == {"self_play": 700, "fictitious": 300}


def test_where_there_are_fewer_deals_than_opponents_each_is_met_as_often() -> None:
    """One deal in an iteration, three opponents: a third of 300 iterations, give or take 3.7 standard errors."""
    config = MatchmakingConfig(self_play=0.0, fictitious=1.0, opponents=3)
    met = Counter(player for i in range(300) for player in opponents(draw(3, config=config, iteration=i, matches=2)))
    assert [met[f"main-{step:06d}"] / 300 for step in range(3)] == pytest.approx([1 / 3] * 3, abs=0.1)


def test_seeds_are_the_matchs_own_and_depend_on_the_run_alone() -> None:
    first, again = draw(), draw()
    assert first == again
    later = draw(first_index=5000)
    assert not {m.sample_seed for m in first} & {m.sample_seed for m in later}
    assert not {m.deal_seed for m in first} & {m.deal_seed for m in later}
    assert len({m.sample_seed for m in first}) == len(first)
    other = draw(run_seed=1)
    assert not {m.sample_seed for m in first} & {m.sample_seed for m in other}


@pytest.mark.parametrize("limit", [1, 2, 4, 16])
def test_no_more_than_the_configured_opponents_are_met(limit: int) -> None:
    config = MatchmakingConfig(self_play=0.0, fictitious=0.5, pfsp=0.5, opponents=limit)
    counts = [len(opponents(draw(past=100, config=config, iteration=i))) for i in range(20)]
    assert max(counts) == limit


def test_all_games_of_an_iteration_meet_the_same_snapshots() -> None:
    config = MatchmakingConfig(self_play=0.5, fictitious=0.3, pfsp=0.2, opponents=5)
    for iteration in range(20):
        games = [draw(past=500, config=config, iteration=iteration, game=replace(spec(), name=name)) for name in "ab"]
        assert set(opponents(games[0])) == set(opponents(games[1]))


def test_with_one_opponent_the_rules_take_turns_by_weight() -> None:
    config = MatchmakingConfig(self_play=0.5, fictitious=0.4, pfsp=0.1, opponents=1)
    rules = Counter(draw(config=config, iteration=i, matches=20)[-1].rule for i in range(500))
    assert rules["fictitious"] / 500 == pytest.approx(0.8, abs=0.06)


def shares(config: MatchmakingConfig, past: int, rates: Sequence[float], iterations: int = 600) -> np.ndarray:
    """Return the share of matches with each snapshot over many iterations."""
    names = [f"main-{step:06d}" for step in range(past)]
    rate = dict(zip(names, rates, strict=True))
    counts: Counter[str] = Counter()
    for iteration in range(iterations):
        counts += opponents(
            draw(past, config=config, iteration=iteration, matches=24, win_rate=lambda _, past, game: rate[past])
        )
    return np.array([counts[name] for name in names]) / counts.total()


def test_fictitious_play_meets_every_snapshot_alike_and_asks_no_win_rate() -> None:
    config = MatchmakingConfig(self_play=0.0, fictitious=1.0)

    def never(*pair: str) -> float:
        raise AssertionError("fictitious play needs no win rate")

    draw(config=config, win_rate=never)
    assert shares(config, 10, [0.5] * 10) == pytest.approx(np.full(10, 0.1), abs=0.02)


def test_pfsp_meets_opponents_as_often_as_the_formula_says() -> None:
    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, pfsp=1.0, opponents=3)
    # (1 - x)^2 of 0.9, 0.5, 0.1, 1.0 is 0.01, 0.25, 0.81, 0, which sum to 1.07
    expected = np.array([0.01, 0.25, 0.81, 0.0]) / 1.07
    assert shares(config, 4, [0.9, 0.5, 0.1, 1.0]) == pytest.approx(expected, abs=0.03)


def test_pfsp_weights_in_closed_form() -> None:
    x = np.array([0.0, 0.25, 0.5, 1.0])
    assert prioritised(x, "hard") == pytest.approx(np.array([16, 9, 4, 0]) / 29)
    assert prioritised(x, "variance") == pytest.approx(np.array([0, 3, 4, 0]) / 7)


@pytest.mark.parametrize(("weighting", "rates"), [("hard", [1.0, 1.0]), ("variance", [0.0, 1.0])])
def test_pfsp_with_no_weight_left_is_uniform(weighting: str, rates: list[float]) -> None:
    assert prioritised(np.array(rates), weighting) == pytest.approx([0.5, 0.5])


def test_pfsp_asks_the_learner_that_would_meet_the_snapshot() -> None:
    queried: set[tuple[str, str, str]] = set()

    def win_rate(player: str, opponent: str, game: str) -> float:
        queried.add((player, opponent, game))
        return 0.5

    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, pfsp=1.0)
    draw(past={"a": ["a-1"], "b": ["b-1"]}, live=("a", "b"), config=config, win_rate=win_rate)
    assert queried == {("b", "a-1", "toy"), ("a", "b-1", "toy")}


@given(
    total=st.integers(0, 1000),
    shares=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=5).filter(any),
)
def test_apportioning_keeps_the_total_and_stays_within_one_of_the_quota(total: int, shares: list[float]) -> None:
    weights = {str(number): share for number, share in enumerate(shares)}
    counts = apportion(total, weights)
    assert sum(counts.values()) == total
    for name, weight in weights.items():
        assert abs(counts[name] - total * weight / sum(weights.values())) < 1 + 1e-6


@pytest.mark.timed
@pytest.mark.parametrize("rule", ["fictitious", "pfsp"])
def test_the_cost_of_a_draw_hardly_depends_on_the_population(rule: str) -> None:
    config = MatchmakingConfig(**{"self_play": 0.5, "fictitious": 0.0, rule: 0.5})

    def cost(past: dict[str, Sequence[str]]) -> float:
        return min(timeit.repeat(lambda: draw(past=past, config=config), number=1, repeat=15))

    small, large = ({"main": [f"main-{step:06d}" for step in range(size)]} for size in (8, 512))
    assert cost(large) - cost(small) < 0.005


@pytest.mark.parametrize("live", [("main", "main"), ("a", "b", "a")])
def test_groups_share_deal_and_players_but_not_what_players_draw(live: tuple[str, ...]) -> None:
    past = {policy: [f"{policy}-{n}" for n in range(3)] for policy in set(live)}
    config = MatchmakingConfig(self_play=0.5, fictitious=0.5, group_size=8)
    matches = draw(past=past, live=live, config=config, matches=480)
    groups: dict[object, list[MatchRequest]] = {}
    for match in matches:
        groups.setdefault((match.deal_seed, match.players, match.trained), []).append(match)
    assert {len(group) for group in groups.values()} == {8}
    assert len({match.sample_seed for match in matches}) == len({match.index for match in matches}) == 480
    by_deal = Counter(deal for deal, players, _ in groups if set(players) != set(live))
    assert set(by_deal.values()) == {len(live)}, "a deal against past opponents is played in every seating"


@pytest.mark.parametrize("live", [("main", "main"), ("a", "b", "a")])
def test_seats_explore_by_turns_in_self_play_alone(live: tuple[str, ...]) -> None:
    past = {policy: [f"{policy}-0"] for policy in set(live)}
    config = MatchmakingConfig(self_play=0.5, fictitious=0.5, explore=0.4)
    matches = draw(past=past, live=live, config=config, matches=480)
    assert {match.explore for match in matches if match.rule == "fictitious"} == {()}
    found = Counter(match.explore for match in matches if match.rule == "self_play")
    assert set(found) == {tuple(0.4 * (seat == own) for seat in range(len(live))) for own in range(len(live))}
    assert max(found.values()) - min(found.values()) <= 1
    assert {match.explore for match in draw(past=past, live=live, matches=60)} == {()}


def test_a_resting_policy_gives_no_trajectories() -> None:
    past = {"a": ["a-0"], "b": ["b-0"]}
    matches = draw(past=past, live=("a", "b"), learning={"b"}, config=MatchmakingConfig(self_play=0.5, fictitious=0.5))
    assert {match.trained for match in matches} == {(False, True)}
    assert {match.players for match in matches} == {("a", "b"), ("a-0", "b")}
    assert draw(past=past, live=("a", "a"), learning={"b"}) == []
