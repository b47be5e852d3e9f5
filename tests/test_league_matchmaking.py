"""The draw: shares, seatings, seeds, and opponents as often as the rules' formulas say."""

from __future__ import annotations

import time
import timeit
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.records import MatchRequest
from games.errors import UsageError
from games.spec import GameSpec, Utility
from league.config_matchmaking import ExploitersConfig, MatchmakingConfig
from league.matchmaking import Member, Meta, OpponentPool, Scene, draw_matches
from league.matchmaking.draw import apportion
from league.matchmaking.main_exploiter import main_exploiter
from league.matchmaking.pfsp import probabilities
from league.matchmaking.pool import Kind
from league.matchmaking.uncertain import variance
from league.matchmaking.verification import verification, without_monotonic_suffix
from league.payoffs import Known, PayoffTable, Result


def spec(seats: int = 2) -> GameSpec:
    return GameSpec("toy", seats, 2, 3, -1.0, 1.0, Utility.ZERO_SUM, False, True)


def draw(
    past: int | dict[str, Sequence[str]] = 10,
    live: tuple[str, ...] = ("main", "main"),
    win_rate: Callable[[str, str, str], float] = lambda player, opponent, game: 0.5,
    meta: Meta | None = None,
    others: Sequence[Member] = (),
    **given: Any,
) -> list[MatchRequest]:
    by_policy = {"main": [f"main-{step:06d}" for step in range(past)]} if isinstance(past, int) else past
    population = [Member(one, policy, "main") for policy, ids in by_policy.items() for one in ids]
    game = given.pop("game", spec(len(live)))
    known = lambda *pair: Known(win_rate(*pair), 10.0)  # noqa: E731
    arguments: dict[str, Any] = {
        "config": MatchmakingConfig(),
        "exploiters": ExploitersConfig(),
        "run_seed": 0,
        "iteration": 7,
        "game": game,
        "scene": Scene(game.name, live, [*population, *others], known, meta or Meta()),
        "learning": set(live),
        "exploiting": {},
        "matches": 512,
        "first_index": 1000,
    }
    return draw_matches(**{**arguments, **given})


def opponents(matches: list[MatchRequest], live: tuple[str, ...] = ("main", "main")) -> Counter[str]:
    return Counter(player for match in matches for player in match.players if player not in live)


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


def test_seeds_are_the_matchs_own_and_depend_on_the_run_alone() -> None:
    one, two = draw(), draw()
    assert one == two
    later = draw(first_index=5000)
    assert not {m.sample_seed for m in one} & {m.sample_seed for m in later}
    assert not {m.deal_seed for m in one} & {m.deal_seed for m in later}
    assert len({m.sample_seed for m in one}) == len(one)
    other = draw(run_seed=1)
    assert not {m.sample_seed for m in one} & {m.sample_seed for m in other}


@pytest.mark.parametrize("limit", [1, 2, 4, 16])
def test_no_more_than_the_configured_opponents_are_met(limit: int) -> None:
    config = MatchmakingConfig(self_play=0.0, fictitious=0.5, pfsp=0.5, opponents=limit)
    met = [len(opponents(draw(past=100, config=config, iteration=i))) for i in range(20)]
    assert max(met) == limit


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
    met: Counter[str] = Counter()
    for iteration in range(iterations):
        met += opponents(
            draw(past, config=config, iteration=iteration, matches=24, win_rate=lambda _, past, game: rate[past])
        )
    return np.array([met[name] for name in names]) / met.total()


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
    assert probabilities(x, "hard", 2.0) == pytest.approx(np.array([16, 9, 4, 0]) / 29)
    assert probabilities(x, "hard", 1.0) == pytest.approx(np.array([4, 3, 2, 0]) / 9)
    assert probabilities(x, "variance", 2.0) == pytest.approx(np.array([0, 3, 4, 0]) / 7)
    assert probabilities(x, "even", 2.0) == pytest.approx(np.full(4, 0.25))


@pytest.mark.parametrize(("weighting", "rates"), [("hard", [1.0, 1.0]), ("variance", [0.0, 1.0])])
def test_pfsp_with_no_weight_left_is_uniform(weighting: str, rates: list[float]) -> None:
    assert probabilities(np.array(rates), weighting, 2.0) == pytest.approx([0.5, 0.5])


def test_pfsp_asks_the_learner_that_would_meet_the_snapshot() -> None:
    asked: set[tuple[str, str, str]] = set()

    def win_rate(player: str, opponent: str, game: str) -> float:
        asked.add((player, opponent, game))
        return 0.5

    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, pfsp=1.0)
    draw(past={"a": ["a-1"], "b": ["b-1"]}, live=("a", "b"), config=config, win_rate=win_rate)
    assert asked == {("b", "a-1", "toy"), ("a", "b-1", "toy")}


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


def test_a_resting_policy_gives_no_trajectories() -> None:
    past = {"a": ["a-0"], "b": ["b-0"]}
    matches = draw(past=past, live=("a", "b"), learning={"b"}, config=MatchmakingConfig(self_play=0.5, fictitious=0.5))
    assert {match.trained for match in matches} == {(False, True)}
    assert {match.players for match in matches} == {("a", "b"), ("a-0", "b")}
    assert draw(past=past, live=("a", "a"), learning={"b"}) == []


def test_verification_meets_what_is_forgotten_but_not_what_is_merely_newer() -> None:
    """Rates 0.9 0.5 0.8 0.7 0.6: the last three only fall, so the newest that rose is the third (AlphaStar's rule)."""
    assert without_monotonic_suffix(np.array([0.9, 0.5, 0.8, 0.7, 0.6])) == 3
    assert without_monotonic_suffix(np.array([0.9, 0.8, 0.5])) == 0
    assert without_monotonic_suffix(np.array([0.5, 0.9])) == 2
    pool = pool_of([0.9, 0.5, 0.8, 0.7, 0.6])
    # of the first three, (1 - x)^2 is 0.01, 0.25, 0.04
    assert verification(pool) == pytest.approx(np.array([0.01, 0.25, 0.04, 0, 0]) / 0.3)
    assert not verification(pool_of([0.9, 0.8, 0.7])).any(), "nothing is forgotten"


def test_verification_meets_strong_main_exploiters_first() -> None:
    kinds: list[Kind] = ["main", "main_exploiter", "main_exploiter", "league_exploiter"]
    assert verification(pool_of([0.2, 0.2, 0.6, 0.1], kinds)) == pytest.approx(np.array([0, 0.64, 0.16, 0]) / 0.8)
    assert not verification(pool_of([0.9, 0.5, 0.6, 0.1], kinds)).any()


def test_a_main_exploiter_meets_the_live_main_unless_that_is_hopeless() -> None:
    assert main_exploiter(pool_of([0.2, 0.1, 0.9]), hopeless=0.2) == pytest.approx([1, 0, 0])
    # below, x (1 - x) of main's snapshots: 0.09 and 0.25
    assert main_exploiter(pool_of([0.1, 0.1, 0.5]), hopeless=0.2) == pytest.approx(np.array([0, 0.09, 0.25]) / 0.34)
    assert main_exploiter(pool_of([0.0]), hopeless=0.2) == pytest.approx([1])


def test_the_least_certain_opponents_are_those_never_met() -> None:
    assert variance(np.array([0.5]), np.array([0.0])) == pytest.approx([1 / 12]), "the uniform distribution's"
    assert variance(np.array([1.0]), np.array([8.0])) == pytest.approx([9 * 1 / (100 * 11)]), "Beta(9, 1)'s"


def test_psro_meets_snapshots_as_the_meta_strategy_mixes_them() -> None:
    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, psro=1.0, opponents=5)
    meta = Meta({"main-000001": 0.2, "main-000003": 0.8})
    met = opponents(draw(5, config=config, meta=meta, matches=100))
    assert met == {"main-000001": 20, "main-000003": 80}


def test_joint_psro_meets_the_others_of_a_line_up_and_only_those_that_go_with_the_advice() -> None:
    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, jpsro=1.0, opponents=12)
    past = {policy: [f"{policy}-{n}" for n in range(2)] for policy in "abc"}
    joint = [(("a-0", "b-0", "c-1"), 0.5), (("a-1", "b-1", "c-0"), 0.25), (("a-1", "b-0", "c-0"), 0.25)]
    matches = draw(past, ("a", "b", "c"), config=config, meta=Meta(joint=joint), matches=120)
    pairs = Counter(match.players[1:] for match in matches if match.trained[0])
    assert pairs == {("b-0", "c-1"): 20, ("b-1", "c-0"): 10, ("b-0", "c-0"): 10}
    advised = Meta(joint=joint, advised=("a-1", "b-0", "c-1"))
    matches = draw(past, ("a", "b", "c"), config=config, meta=advised, matches=120)
    assert {match.players[1:] for match in matches if match.trained[0]} == {("b-1", "c-0"), ("b-0", "c-0")}
    assert {match.players[::2] for match in matches if match.trained[1]} == {("a-0", "c-1"), ("a-1", "c-0")}
    assert {match.players[:2] for match in matches if match.trained[2]} == {("a-0", "b-0")}


def test_exploiters_have_their_share_and_take_every_seat() -> None:
    config = MatchmakingConfig(self_play=0.5, fictitious=0.5, group_size=2)
    kinds: dict[str, Kind] = {"probe": "main_exploiter", "rover": "league_exploiter"}
    others = [Member("probe-7", "probe", "main_exploiter"), Member("random", "random", "guest")]
    settings = ExploitersConfig(share=0.25)
    matches = draw(3, config=config, exploiters=settings, exploiting=kinds, others=others, matches=160)
    by_rule = Counter(match.rule for match in matches)
    assert by_rule == {"main_exploiter": 40, "league_exploiter": 40, "self_play": 40, "fictitious": 40}
    for rule, name in (("main_exploiter", "probe"), ("league_exploiter", "rover")):
        own = [match for match in matches if match.rule == rule]
        assert all(match.players[match.trained.index(True)] == name and sum(match.trained) == 1 for match in own)
        assert Counter(match.trained.index(True) for match in own) == {0: 20, 1: 20}
    met = {player for match in matches if match.rule == "main_exploiter" for player in match.players}
    assert met == {"probe", "main"}
    past = {player for match in matches if match.rule == "fictitious" for player in match.players}
    assert past <= {"main", "probe-7", "random", *(f"main-{step:06d}" for step in range(3))}


def test_a_thousand_players_and_matches_are_drawn_in_twenty_milliseconds() -> None:
    """The weights of every rule at once, 1,024 matches, 1,000 players; by processor time, the best of several."""
    config = MatchmakingConfig(self_play=0.3, fictitious=0.2, pfsp=0.2, verification=0.1, uncertain=0.1, psro=0.1)
    meta = Meta({f"main-{step:06d}": 0.01 for step in range(100)})
    table = PayoffTable(live=["main"], forgetting=0.9)
    rows = [("main", f"main-{step:06d}", "toy", role) for step in range(1000) for role in ("first", "second")]
    table.apply([Result(*row, n=10, sum_return=1.0, sumsq_return=10.0, sum_score=6.0, iteration=3) for row in rows])
    scene = Scene("toy", ("main", "main"), draw_members(1000), table.known, meta)

    def cost() -> float:
        started = time.process_time()
        assert len(draw(config=config, scene=scene, matches=1024)) == 1024
        return time.process_time() - started

    assert min(cost() for _ in range(10)) < 0.02


def draw_members(count: int) -> list[Member]:
    return [Member(f"main-{step:06d}", "main", "main") for step in range(count)]


def pool_of(rates: Sequence[float], kinds: Sequence[Kind] | None = None) -> OpponentPool:
    """Return a pool against whose players "main" wins at given rates."""
    names = [str(number) for number in range(len(rates))]
    rate = dict(zip(names, rates, strict=True))
    known = lambda player, opponent, game: Known(rate[opponent], 10.0)  # noqa: E731
    return OpponentPool(names, ("main",), "toy", known, MatchmakingConfig(), kinds or ["main"] * len(rates))
