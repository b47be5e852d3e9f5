"""Rules of matchmaking beyond self-play and PFSP: verification, exploiters, uncertainty, meta-strategies."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.matches.draws import draw, draw_members, opponents, pool_of
from support.timing import processor_seconds

from league.config.matchmaking import ExploitersConfig, MatchmakingConfig
from league.population.matchmaking import DrawContext, Member, MetaStrategy
from league.population.matchmaking.league_roles import main_exploiter
from league.population.matchmaking.rules import even, variance, verification, without_monotonic_suffix
from league.population.results.payoffs import PayoffTable, Result
from league.population.storage.members import Kind


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
    config = ExploitersConfig(hopeless=0.2)
    assert main_exploiter(pool_of([0.2, 0.1, 0.9], ["main"] * 3), config) == pytest.approx([1, 0, 0])
    # below, x (1 - x) of main's snapshots: 0.09 and 0.25
    assert main_exploiter(pool_of([0.1, 0.1, 0.5], ["main"] * 3), config) == pytest.approx(
        np.array([0, 0.09, 0.25]) / 0.34
    )
    assert main_exploiter(pool_of([0.0], ["main"]), config) == pytest.approx([1])


def test_the_least_certain_opponents_are_those_never_met() -> None:
    assert variance(np.array([0.5]), np.array([0.0])) == pytest.approx([1 / 12]), "the uniform distribution's"
    assert variance(np.array([1.0]), np.array([8.0])) == pytest.approx([9 * 1 / (100 * 11)]), "Beta(9, 1)'s"


def test_psro_meets_snapshots_as_the_meta_strategy_mixes_them() -> None:
    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, psro=1.0, opponents=5)
    meta = MetaStrategy({"main-000001": 0.2, "main-000003": 0.8})
    drawn = opponents(draw(5, config=config, meta=meta, matches=100))
    assert drawn == {"main-000001": 20, "main-000003": 80}


def test_joint_psro_meets_the_others_of_a_line_up_and_only_those_that_go_with_the_advice() -> None:
    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, jpsro=1.0, opponents=12)
    past = {policy: [f"{policy}-{n}" for n in range(2)] for policy in "abc"}
    joint = [(("a-0", "b-0", "c-1"), 0.5), (("a-1", "b-1", "c-0"), 0.25), (("a-1", "b-0", "c-0"), 0.25)]
    matches = draw(past, ("a", "b", "c"), config=config, meta=MetaStrategy(joint=joint), matches=120)
    pairs = Counter(match.players[1:] for match in matches if match.trained[0])
    assert pairs == {("b-0", "c-1"): 20, ("b-1", "c-0"): 10, ("b-0", "c-0"): 10}
    advised = MetaStrategy(joint=joint, advised=("a-1", "b-0", "c-1"))
    matches = draw(past, ("a", "b", "c"), config=config, meta=advised, matches=120)
    assert {match.players[1:] for match in matches if match.trained[0]} == {("b-1", "c-0"), ("b-0", "c-0")}
    assert {match.players[::2] for match in matches if match.trained[1]} == {("a-0", "c-1"), ("a-1", "c-0")}
    assert {match.players[:2] for match in matches if match.trained[2]} == {("a-0", "b-0")}


def test_an_exploiter_without_a_deal_leaves_the_game_to_the_main_policies_and_alone_it_leaves_it_out() -> None:
    """With ``alternate`` an exploiter may learn alone: a game too small for its share is then not played."""
    few = {"exploiters": ExploitersConfig(share=0.02), "exploiting": {"probe": "main_exploiter"}, "matches": 60}
    config = MatchmakingConfig(self_play=1.0, fictitious=0.0)
    assert {match.rule for match in draw(3, config=config, **few)} == {"self_play"}
    assert draw(3, config=config, learning=(), **few) == []
    assert len(draw(3, config=config, learning=(), **{**few, "matches": 100})) == 2


def test_exploiters_have_their_share_and_take_every_seat() -> None:
    config = MatchmakingConfig(self_play=0.5, fictitious=0.5, group_size=2)
    kinds: dict[str, Kind] = {"probe": "main_exploiter", "rover": "league_exploiter"}
    outsiders = [Member("probe-7", "probe", "main_exploiter"), Member("random", "random", "guest")]
    settings = ExploitersConfig(share=0.25)
    matches = draw(3, config=config, exploiters=settings, exploiting=kinds, others=outsiders, matches=160)
    by_rule = Counter(match.rule for match in matches)
    assert by_rule == {"main_exploiter": 40, "league_exploiter": 40, "self_play": 40, "fictitious": 40}
    for rule, name in (("main_exploiter", "probe"), ("league_exploiter", "rover")):
        by_exploiter = [match for match in matches if match.rule == rule]
        assert all(
            match.players[match.trained.index(True)] == name and sum(match.trained) == 1 for match in by_exploiter
        )
        assert Counter(match.trained.index(True) for match in by_exploiter) == {0: 20, 1: 20}
    players = {player for match in matches if match.rule == "main_exploiter" for player in match.players}
    assert players == {"probe", "main"}
    past = {player for match in matches if match.rule == "fictitious" for player in match.players}
    assert past <= {"main", "probe-7", "random", *(f"main-{step:06d}" for step in range(3))}


def test_no_deal_is_played_under_two_rules() -> None:
    config = MatchmakingConfig(self_play=0.4, fictitious=0.3, pfsp=0.3, group_size=2)
    kinds: dict[str, Kind] = {"probe": "main_exploiter", "rover": "league_exploiter"}
    matches = draw(3, config=config, exploiters=ExploitersConfig(share=0.25), exploiting=kinds, matches=160)
    by_rule = Counter(match.rule for match in matches)
    deals = {rule: {match.deal_seed for match in matches if match.rule == rule} for rule in by_rule}
    assert len(by_rule) == 5
    for rule, number in by_rule.items():  # two of a group, and against others in both seats
        assert len(deals[rule]) == number / (2 if rule == "self_play" else 4), rule
    assert len(set.union(*deals.values())) == sum(map(len, deals.values()))


def test_a_main_exploiter_without_hope_meets_mains_snapshots_and_nobody_elses() -> None:
    kinds: dict[str, Kind] = {"probe": "main_exploiter"}
    others = [Member("probe-7", "probe", "main_exploiter"), Member("rover-7", "rover", "league_exploiter")]
    matches = draw(
        3,
        exploiting=kinds,
        others=[*others, Member("random", "random", "guest")],
        win_rate=lambda player, opponent, game: 0.1 if opponent == "main" else 0.5,
        matches=160,
    )
    players = {player for match in matches if match.rule == "main_exploiter" for player in match.players}
    assert players == {"probe", *(f"main-{step:06d}" for step in range(3))}


@pytest.mark.timed
def test_a_thousand_players_and_matches_are_drawn_in_twenty_milliseconds() -> None:
    """The weights of every rule at once, 1,024 matches, 1,000 players; by processor time, the best of several."""
    config = MatchmakingConfig(self_play=0.3, fictitious=0.2, pfsp=0.2, verification=0.1, uncertain=0.1, psro=0.1)
    meta = MetaStrategy({f"main-{step:06d}": 0.01 for step in range(100)})
    table = PayoffTable(live=["main"], forgetting=0.9)
    rows = [("main", f"main-{step:06d}", "toy", role) for step in range(1000) for role in ("first", "second")]
    table.apply([Result(*row, n=10, sum_return=1.0, sumsq_return=10.0, sum_score=6.0, iteration=3) for row in rows])
    context = DrawContext("toy", ("main", "main"), draw_members(1000), table.pair_record, meta)

    assert len(draw(config=config, context=context, matches=1024)) == 1024
    assert processor_seconds(lambda: draw(config=config, context=context, matches=1024), repeats=50) < 0.02


def test_a_curriculum_of_opponents_wins_half() -> None:
    """Rates 1, 1/2, 0 are even as they are; 0.9, 0.7, 0.2 by exp(-x λ); of stronger ones alone the weakest are met."""
    assert even(pool_of([1.0, 0.5, 0.0])) == pytest.approx([1 / 3] * 3)
    rates = np.array([0.9, 0.7, 0.2])
    shares = even(pool_of(rates.tolist()))
    assert shares @ rates == pytest.approx(0.5, abs=1e-9)
    tilt = np.log(shares[1:] / shares[:-1]) / np.diff(rates)
    assert tilt == pytest.approx([tilt[0]] * 2)
    assert even(pool_of([0.1, 0.3, 0.3])) == pytest.approx([0.0, 0.5, 0.5])
    assert even(pool_of([0.9, 0.6])) == pytest.approx([0.0, 1.0])
