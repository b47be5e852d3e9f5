"""What a forfeit pays: the offender no more than any legal course of the match would, and the others no less."""

import random

import pytest
from support.matches.aec_envs import wordy

from games.common import plugins
from games.registry import make_game, register_environment
from games.secured_returns import secured_returns
from games.spec import Choices, Utility
from roles.conduct import settle_forfeit
from roles.role import Conduct

EPSILON = 1e-9
COUNTABLE = (  # of which every course from every position is played
    "public_goods(seats=2,rounds=2,tokens=1,multiplier=150,talk=0)",
    "public_goods(seats=2,rounds=1,tokens=1,multiplier=150,talk=2)",
    "public_goods(seats=2,rounds=2,tokens=1,multiplier=300,talk=0)",
    "public_goods(seats=3,rounds=1,tokens=2,multiplier=90,talk=0)",
    "matrix_pd",
    "matrix_bos",
    "matching_pennies_3p",
    "repeated_game(stage_game=matrix_pd(),num_repetitions=4)",
    "repeated_game(stage_game=matrix_cd(),num_repetitions=3)",
    "goofspiel(players=3,num_cards=3,returns_type=total_points)",
    "first_sealed_auction(max_value=4)",
    "lewis_signaling",
    "trade_comm(num_items=2)",
    "pair_arithmetic",
    "judged_arithmetic",
    "judged_arithmetic(judge=1)",
    "debate(boxes=2,form=1)",
    "debate(boxes=2,asks=2)",
    "hidden_roles(seats=3,days=1,form=1)",
    "simple_negotiation(goods=2,stock=1,most=2,turns=2,form=1)",
    "kuhn_poker(players=3)",
    "goofspiel(players=3,num_cards=3)",
    "replaced(kuhn_poker,turn=1)",
    "permuted(pair_arithmetic)",
)
LARGE = (  # of which courses are drawn
    "public_goods",
    "repeated_game(stage_game=matrix_pd(),num_repetitions=20)",
    "bargaining",
    "colored_trails",
    "hidden_roles",
    "hidden_roles(seats=6,days=1,form=1)",
    "negotiation",
    "oh_hell",
    "leduc_poker(players=3)",
    "sheriff",
    "simple_negotiation",
)


def legal(game):
    actions = game.actions()
    return actions.labels if isinstance(actions, Choices) else game.legal_actions()


def endings(game):
    """Return the returns of all courses of a match from here, with the chance of this match."""
    if game.to_act() is None:
        return [game.returns()]
    courses = []
    for action in legal(game):
        match = game.copy()
        match.apply(action)
        courses += endings(match)
    return courses


def drawn_ending(game, rng):
    match = game.copy()
    while match.to_act() is not None:
        match.apply(rng.choice(legal(match)))
    return match.returns()


def positions(game, seeds):
    """Yield the positions of random matches in which a seat is to act."""
    for seed in seeds:
        rng = random.Random(seed)
        game.reset(seed)
        while game.to_act() is not None:
            yield game
            game.apply(rng.choice(legal(game)))


def cards(seed):
    game = make_game("kuhn_poker(players=3)")
    game.reset(seed)
    return ["JQKA".index(game.observe(seat).removeprefix("Your card: ")[0]) for seat in range(3)]


def played(name, actions):
    game = make_game(name)
    for action in actions:
        game.apply(action)
    return game


@pytest.mark.parametrize("name", COUNTABLE)
def test_no_legal_course_pays_the_offender_less_or_another_less_than_it_is_sure_of(name):
    for game in positions(make_game(name), range(8)):
        courses, offender = endings(game), game.to_act()
        settled = settle_forfeit(game, offender, Conduct())
        if game.spec.utility is Utility.ZERO_SUM:
            assert sum(settled) == pytest.approx(0.0)
        for seat, (least, paid) in enumerate(zip(map(min, *courses, courses[0]), game.returns(), strict=True)):
            if seat == offender:
                assert settled[seat] <= least + EPSILON
            elif game.spec.utility is Utility.ZERO_SUM:
                assert settled[seat] >= least - EPSILON, (seat, game.observe(seat))
            elif game.spec.utility is not Utility.IDENTICAL:
                assert settled[seat] == pytest.approx(max(least, paid)), (seat, game.observe(seat))


@pytest.mark.parametrize("name", LARGE)
def test_in_a_large_game_a_settlement_lies_between_the_bounds_and_below_some_course(name):
    for number, game in enumerate(positions(make_game(name), range(3))):
        if number % 5:
            continue
        spec, offender, rng = game.spec, game.to_act(), random.Random(number)
        settled = settle_forfeit(game, offender, Conduct())
        courses = [drawn_ending(game, rng) for _ in range(10)]
        assert settled[offender] <= min(course[offender] for course in courses)
        for seat in set(range(spec.seats)) - {offender}:
            assert spec.min_return - EPSILON <= settled[seat] <= spec.max_return + EPSILON
            assert settled == settle_forfeit(game, offender, Conduct())  # whatever is drawn for it


def test_who_is_sure_of_a_pot_gets_it_however_many_share_what_a_third_forfeits():
    """Kuhn poker of three, two bets of 1 to come: the last to act faces a bet that the second has folded to."""
    game = make_game("kuhn_poker(players=3)")
    game.reset(next(seed for seed in range(99) if cards(seed)[0] > cards(seed)[2]))
    for action in ("bet", "pass"):
        game.apply(action)
    # The bettor wins 1 + 1, or 1 + 2 if it is called; who has folded has lost 1. Without either sure, both would get 1.
    assert settle_forfeit(game, 2, Conduct()) == pytest.approx((2.5, -0.5, -2.0))


UNLISTED = {  # others' games, and those whose courses are not played: replies are free words, or open matches
    "textarena": "textarena:LiarsDice-v0(least=-9,most=9,seats=3)",
    "pettingzoo": "pettingzoo:support.matches.aec_envs.wordy(least=-4,most=4,seats=3)",
    "submatches": "lookup_chain",
    "a match of a proposer": "propose_programs",
}


@pytest.mark.parametrize("name", UNLISTED.values(), ids=UNLISTED)
def test_where_no_course_is_known_the_bounds_of_the_game_hold(name, monkeypatch):
    """No course pays less than ``min_return``, which the offender gets, and no other seat gets less than that."""
    monkeypatch.setattr(plugins, "_registered", {})
    register_environment("support.matches.aec_envs.wordy", wordy)
    if name.startswith("textarena:"):
        pytest.importorskip("textarena")
    game = make_game(name)
    game.reset(0)
    spec, offender = game.spec, game.to_act()
    settled = settle_forfeit(game, offender, Conduct())
    assert settled[offender] == spec.min_return
    assert all(spec.min_return <= paid <= spec.max_return for paid in settled)
    if spec.utility is not Utility.IDENTICAL:
        assert all(p >= paid for s, (p, paid) in enumerate(zip(settled, game.returns(), strict=True)) if s != offender)


@pytest.mark.parametrize("price", [0.0, 0.5, 30.0])
@pytest.mark.parametrize("name", COUNTABLE[:10:3])
def test_a_price_changes_what_the_offender_loses_and_nothing_for_others_but_where_all_sums_are_fixed(name, price):
    """A price that is less than the game can cost may be the better course: it is the choice of who sets it."""
    for game in positions(make_game(name), range(3)):
        offender = game.to_act()
        free, priced = (settle_forfeit(game, offender, Conduct(price=cost)) for cost in (None, price))
        assert priced[offender] == -price
        assert [p for seat, p in enumerate(priced) if seat != offender] == [
            p for seat, p in enumerate(free) if seat != offender
        ]


def test_public_goods_by_hand():
    """Four seats get 4 tokens a round, and a token given brings every seat 0.4: whoever gives all alone keeps 1.6."""
    assert settle_forfeit(make_game("public_goods(rounds=1)"), 2, Conduct()) == pytest.approx((1.6,) * 4)
    assert settle_forfeit(make_game("public_goods"), 0, Conduct()) == pytest.approx((8.0,) * 4)
    assert settle_forfeit(make_game("public_goods"), 0, Conduct(price=1.0)) == pytest.approx((-1.0, 8.0, 8.0, 8.0))
    game = played("public_goods(rounds=2,talk=0)", [f"give {tokens}" for tokens in (4, 0, 2, 1, 3)])
    # Round 1 paid 2.8, 6.8, 4.8 and 5.8. In round 2 the first has kept 1 and all get 1.2 of its 3 tokens.
    assert secured_returns(game) == pytest.approx((2.8 + 2.2, 6.8 + 2.8, 4.8 + 2.8, 5.8 + 2.8))
    assert settle_forfeit(game, 1, Conduct()) == pytest.approx((5.0, 3.2, 7.6, 8.6))


def test_public_goods_by_hand_where_a_token_brings_its_giver_more_than_it_costs():
    """Two seats, one token, tripled: whoever gives it gets 1.5 back, and 1 is sure, by giving nothing."""
    name = "public_goods(seats=2,rounds=1,tokens=1,multiplier=300,talk=0)"
    assert secured_returns(make_game(name)) == pytest.approx((1.0, 1.0))
    assert settle_forfeit(played(name, ["give 1"]), 1, Conduct()) == pytest.approx((1.5, 1.0))


def test_who_has_earned_a_reward_that_is_paid_at_the_end_gets_it():
    """The pioneer is right, so every reply of the observer pays the pioneer 1."""
    game = make_game("pair_arithmetic")
    game.apply(str(sum(game.sum)))
    assert settle_forfeit(game, 1, Conduct()) == (1.0, 0.0)


def test_a_defector_keeps_what_the_rounds_to_come_pay_at_least():
    """A round of this dilemma pays a betrayed cooperator 0 and mutual defection 1; a defector is paid 1 at least."""
    name = "repeated_game(stage_game=matrix_pd(),num_repetitions=3)"
    assert settle_forfeit(make_game(name), 1, Conduct()) == (0.0, 0.0)
    assert settle_forfeit(played(name, ["defect"]), 1, Conduct()) == (1.0, 0.0)
    assert settle_forfeit(played(name, ["cooperate", "cooperate", "defect"]), 1, Conduct()) == (6.0, 0.0)
