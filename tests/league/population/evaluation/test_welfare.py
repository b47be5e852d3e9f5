"""Welfare against the best possible, and the Pareto share: by hand, and by playing every sequence of moves."""

import itertools
import random

import pyspiel
import pytest

from arena.records import EndReason, Episode, MatchRequest
from games.registry import make_game
from games.spec import HasOutcomes, Utility
from league.population.evaluation.welfare import common_interest, fixed_outcomes, is_pareto, welfare_metrics
from league.training.board.questions import pinned_metrics

DILEMMA = "repeated_game(stage_game=matrix_pd(),num_repetitions=3)"
TRADE = "simple_negotiation(goods=2,stock=1,most=2,turns=3,form=1)"


def episode(game, returns, seed=0, rule="self_play", end=EndReason.FINISHED):
    request = MatchRequest(seed, game, seed, seed, ("main",) * len(returns), (True,) * len(returns), rule)
    return Episode(request, (), returns, end)


def test_an_outcome_is_pareto_optimal_if_none_is_better_for_one_and_no_worse_for_another():
    possible = {(0.0, 0.0), (1.0, 1.0), (2.0, 0.0), (0.0, 0.5)}
    assert [is_pareto(returns, possible) for returns in sorted(possible)] == [False, False, True, True]


def test_what_a_repeated_dilemma_can_come_to_is_what_every_sequence_of_moves_comes_to():
    stage = pyspiel.load_game("matrix_pd").new_initial_state()
    paid = []
    for joint in itertools.product(range(2), repeat=2):
        state = stage.clone()
        state.apply_actions(list(joint))
        paid.append(state.returns())
    totals = {tuple(map(sum, zip(*rounds, strict=True))) for rounds in itertools.product(paid, repeat=3)}
    assert set(fixed_outcomes(DILEMMA)) == totals


def test_who_always_defects_earns_less_together_than_who_cooperates():
    spec = make_game(DILEMMA).spec
    defect, cooperate = (3.0, 3.0), (15.0, 15.0)  # OpenSpiel's dilemma pays 1 and 5 a round
    found = welfare_metrics(spec, [episode(DILEMMA, defect), episode(DILEMMA, cooperate, rule="pfsp")])
    assert found == {f"{DILEMMA}/welfare": 6.0, f"{DILEMMA}/best_welfare": 30.0, f"{DILEMMA}/pareto_share": 0.0}
    assert welfare_metrics(spec, [episode(DILEMMA, cooperate)])[f"{DILEMMA}/pareto_share"] == 1.0


def test_a_trade_is_measured_against_the_best_of_its_own_deal():
    game = make_game(TRADE)
    spec = game.spec
    for seed in range(20):
        game.reset(seed)
        best = sum(abs(mine - theirs) for mine, theirs in zip(game.values(0), game.values(1), strict=True))
        assert max(map(sum, game.possible_returns())) == best
        improves = any(min(gains) >= 0.0 < max(gains) for gains in game.possible_returns())
        nothing = welfare_metrics(spec, [episode(TRADE, (0.0, 0.0), seed)])
        assert nothing[f"{TRADE}/best_welfare"] == best
        assert nothing[f"{TRADE}/pareto_share"] == float(not improves)


@pytest.mark.parametrize(
    "name",
    [
        "debate(boxes=3,form=1)",
        "debate(boxes=3,asks=2,form=1)",
        "debate(boxes=3,judge=0,form=1)",
        "debate(boxes=3,debaters=1,judge=0,form=1)",
        "debate(boxes=3,debaters=0,form=1)",
        "hidden_roles(seats=3,days=1,form=1)",
        "hidden_roles(seats=3,sight=0,form=1)",
        "hidden_roles(seats=6,days=1,rounds=0,sight=0,form=1)",
        "hidden_roles(seats=6,rounds=0,sight=0,form=1)",
    ],
)
def test_what_a_deal_can_come_to_is_what_random_matches_of_it_come_to(name):
    """Two wolves cannot both be voted out in one day."""
    game, rng = make_game(name), random.Random(0)
    for seed in range(3):
        game.reset(seed)
        told, seen = game.possible_returns(), set()
        for number in range(20_000):
            match = game.copy()
            match._seed = rng.getrandbits(32)  # how the debate's own judge draws; all else is dealt
            while match.to_act() is not None:
                match.apply(rng.choice(match.legal_actions()))
            seen.add(match.returns())
            if number > 100 and seen >= told:
                break
        assert seen == told
    assert isinstance(game, HasOutcomes)


def test_it_is_told_of_games_that_nobody_has_to_lose_alone():
    assert welfare_metrics(make_game("kuhn_poker").spec, [episode("kuhn_poker", (1.0, -1.0))]) == {}
    judged = make_game("judged_arithmetic").spec
    assert welfare_metrics(judged, [episode(judged.name, (0.5, 0.5))]) == {f"{judged.name}/welfare": 1.0}


def test_what_was_earned_is_pinned_before_what_could_be_exploited():
    line = {f"{TRADE}/exploitability": 0.1, "kuhn_poker/exploitability": 0.2, f"{TRADE}/welfare": 1.0}
    line |= {f"{TRADE}/ce_gap": 0.2, f"{TRADE}/return/first": 0.5, f"{TRADE}/best_welfare": 2.0}
    assert pinned_metrics([line])[:4] == [
        f"{TRADE}/{name}" for name in ("return/first", "welfare", "best_welfare", "ce_gap")
    ]
    beside_poker = dict(sorted(line.items(), key=lambda item: not item[0].startswith("kuhn")))
    assert pinned_metrics([beside_poker])[0] == "kuhn_poker/exploitability"


@pytest.mark.parametrize(
    ("game", "common"),
    [
        ("lewis_signaling", True),  # OpenSpiel: general-sum; its two seats are paid the same for what is understood
        ("tiny_hanabi", True),  # declares it
        ("kuhn_poker", False),
        ("matrix_pd", False),
        (DILEMMA, False),
        ("hidden_roles", False),  # too large to look at every end, and with free text
        ("throw", False),  # of one seat, general-sum or not as it declares
    ],
)
def test_interest_is_common_where_every_end_pays_all_the_same(game, common):
    assert common_interest(make_game(game).spec) == (common or make_game(game).spec.utility is Utility.IDENTICAL)


@pytest.mark.parametrize("end", list(EndReason))
def test_a_forfeit_is_no_agreement(end):
    best = episode(DILEMMA, (15.0, 15.0), end=end)
    share = welfare_metrics(make_game(DILEMMA).spec, [best])[f"{DILEMMA}/pareto_share"]
    assert share == float(end is EndReason.FINISHED)
