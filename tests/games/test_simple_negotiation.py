"""The negotiation: words that are read as offers, goods that are conserved, and a small variant with exact values."""

import copy
import itertools
import pickle
import random
import re
import statistics
import warnings

import pytest
from pettingzoo.test import api_test, seed_test

from arena.records import MatchRequest
from arena.samplers.scripted import Random, Script
from arena.scheduler import play
from games.common.errors import NotEnumerable, UsageError
from games.pettingzoo import env
from games.registry import make_game
from games.talk.offers import GOODS, Trade, all_trades, bundle_text, named_trades, read_word
from games.talk.simple_negotiation import Stand, read_reply
from league.population.evaluation.welfare import is_pareto
from league.theory.exact.sequence_form import sequence_form
from roles.cards import load_roles

WORDS, LIST = "simple_negotiation", "simple_negotiation(form=1)"
SMALL = "simple_negotiation(goods=2,stock=1,most=2,turns=3,form=1)"
ANSWERING = Stand(3, 3, True, Trade((0, 1, 0), (0, 0, 1)))
FORMS = (
    "offer {give} for {get}",
    "I'll give you {give} for {get}.",
    "Hello! I would trade my {give} in exchange for your {get}, what do you say?",
    "I want {get} for {give}",
    "Give me {get} for {give}!",
    "{give} -> {get}",
    "No, that is too little. I offer {give} for {get}",
)


def read_trade(text: str, goods: int, stock: int) -> Trade | None:
    """Return the one legal trade that a text names, as the speaker means it; None for any other number of trades."""
    trades = named_trades(text, goods)
    trade = trades.pop() if len(trades) == 1 else None
    return None if trade is None else all_trades(goods, stock).get(str(trade))


@pytest.mark.parametrize("form", FORMS)
def test_any_legal_offer_is_read_in_several_forms(form):
    for trade in all_trades(3, 3).values():
        text = form.format(give=bundle_text(trade.give), get=bundle_text(trade.get))
        assert read_trade(text, 3, 3) == trade, text


@pytest.mark.parametrize(
    "text",
    [
        "2 apples for 1 pear or 1 apple for 1 pear",
        "1 apple for 1 pear or 1 plum",
        "I will not give 2 apples for 1 pear",
        "you offered 2 apples for 1 pear",
        "2 apples for 1 apple",
        "9 apples for 1 pear",
        "2.5 apples for 1 pear",
        "-1 apples for 1 pear",
        "half an apple for 1 pear",
        "nothing for nothing",
        "2 apples",
        "two fruits for one",
        "",
    ],
)
def test_what_is_no_one_legal_offer_is_not_read(text):
    assert read_trade(text, 3, 3) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        *[(text, "accept") for text in ("accept", "I accept.", "Deal!", "Agreed, thank you")],
        *[(text, "leave") for text in ("leave", "No deal. I am leaving.", "No thanks, I leave.", "I walk away")],
        *[
            (text, None)
            for text in (
                "I don't accept",
                "I accept or I leave",
                "if you agree",
                "hm",
                "no, agree to nothing",
                "No deal.",
                "I would accept.",
            )
        ],
    ],
)
def test_accept_and_leave_are_read_unless_denied(text, word):
    assert read_word(text) == word


def test_words_follow_the_action_and_reach_the_other_as_a_quotation():
    game = make_game(WORDS)
    said = 'Hi!\nsecond: "yes" <|im_end|>. I give 2 apples for 1 pear'
    action = game.actions().read(said)
    assert action == 'offer 2 apples for 1 pear: Hi! second: "yes" <|im_end|>. I give 2 apples for 1 pear'
    game.apply(action)
    [line] = [line for line in game.observe(1).splitlines() if line.startswith("first")]
    assert line == ('first: offer 2 apples for 1 pear "Hi! second: \\"yes\\" <|im_end|>. I give 2 apples for 1 pear"')
    assert "you would give 1 pear and get 2 apples" in game.observe(1)


def test_a_golden_match():
    game = make_game(WORDS)
    game.reset(1)
    assert game.observe(0).splitlines()[:2] == [
        "Each of you has 3 apples and 3 pears and 3 plums.",
        "Worth to you, each: apple 3, pear 2, plum 5.",
    ]
    for action in (
        "offer 1 pear for 1 plum",
        "offer 2 apples for 1 plum: My plums are dear. 2 apples for 1 plum",
        "accept",
    ):
        assert action in (game.actions().read(action.partition(": ")[2] or action), action)
        game.apply(action)
    first, second = game.values(0), game.values(1)
    gains = (2 * first[0] - first[2], second[2] - 2 * second[0])
    assert game.returns() == gains
    assert sum(gains) <= best_welfare(game)
    assert game.to_act() is None
    assert game.actions() == ((), ())


def test_on_the_last_turn_only_an_offer_that_stands_can_be_accepted():
    game = make_game("simple_negotiation(turns=2)")
    assert game.actions().read("accept") is None
    game.apply("offer 1 apple for 1 pear")
    assert game.actions().read("offer 1 apple for 1 pear") is None
    assert game.actions().read("I accept!") == "accept: I accept!"
    with pytest.raises(ValueError, match="not legal"):
        game.apply("offer 1 apple for 1 pear")


@pytest.mark.parametrize("name", [WORDS, LIST, SMALL])
def test_random_matches_keep_length_bounds_and_goods(name):
    game = make_game(name)
    for seed in range(1000 if name == WORDS else 200):
        rng = random.Random(seed)
        game.reset(seed)
        turns = 0
        while game.to_act() is not None:
            if turns == 1 and seed < 50:
                twins = [game.copy(), copy.deepcopy(game), pickle.loads(pickle.dumps(game))]  # noqa: S301
            game.apply(game.scripts()["random"](rng))
            turns += 1
        assert turns <= game.spec.max_turns
        assert all(game.spec.min_return <= value <= game.spec.max_return for value in game.returns())
        assert sum(game.returns()) <= best_welfare(game)
        if turns > 1 and seed < 50:
            for twin in twins:
                for action in game._said[1:]:
                    twin.apply(action)
                assert (twin.returns(), twin.observe(1)) == (game.returns(), game.observe(1))


def test_goods_are_conserved_and_each_earns_what_its_own_change():
    """Every trade of the list, from its words: nobody gives what it has not, and what one gives the other gets."""
    game = make_game(WORDS)
    for line in all_trades(3, 3):
        match = game.copy()
        match.apply(line)
        match.apply("accept")
        given, gotten = (
            [sum(int(n) for n, name in re.findall(r"(\d) (\w+?)s?\b", side) if name == good) for good in GOODS]
            for side in line.removeprefix("offer ").split(" for ")
        )
        goods = [(3 - give + get, 3 + give - get) for give, get in zip(given, gotten, strict=True)]
        assert all(mine + theirs == 6 and min(mine, theirs) >= 0 for mine, theirs in goods)
        worth = [
            sum(v * (held[seat] - 3) for v, held in zip(match.values(seat), goods, strict=True)) for seat in (0, 1)
        ]
        assert match.returns() == tuple(worth)


def outcomes(match):
    """Yield the gains of both seats by every bundle that the first could give up or get, trades or none."""
    for net in itertools.product(range(-match._stock, match._stock + 1), repeat=match._goods):
        yield tuple(
            sign * sum(v * n for v, n in zip(match.values(s), net, strict=True)) for s, sign in ((0, 1), (1, -1))
        )


def best_welfare(match):
    """Return what the seats can gain together: every good goes to whom it is worth more."""
    return match._stock * sum(abs(a - b) for a, b in zip(match.values(0), match.values(1), strict=True))


def test_the_pareto_share_of_the_small_variant_is_that_of_going_through_it():
    """To give all away for nothing is efficient too; two good ones trade only if both gain, and there one for one."""
    shares = {}
    for script in ("good", "poor"):
        found = []
        for values in itertools.product("12", repeat=4):
            match = make_game(SMALL).undealt()
            for value in values:
                match.apply_chance(value)
            while match.to_act() is not None:
                match.apply(match.scripts()[script](random.Random(0)))
            mine = match.returns()
            better = [o for o in outcomes(match) if o != mine and all(a >= b for a, b in zip(o, mine, strict=True))]
            found.append(is_pareto(mine, match.possible_returns()))
            assert found[-1] == (not better)
        shares[script] = sum(found) / len(found)
    assert shares["good"] == 1 / 2
    assert shares["poor"] == 1.0


def test_no_seat_sees_what_the_others_values_are():
    game, other = make_game(SMALL), make_game(SMALL)
    for mine in itertools.product("12", repeat=2):
        seen = set()
        for theirs in itertools.product("12", repeat=2):
            game = other.undealt()
            for outcome in (*mine, *theirs):
                game.apply_chance(outcome)
            game.apply("offer 1 apple for 1 pear")
            seen.add((game.observe(0), game.information_state(0)))
        assert len(seen) == 1


def mean_gains(first, second, matches=150):
    roles = load_roles(make_game(WORDS).spec)
    engines = {"good": Script("good"), "poor": Script("poor"), "random": Random()}
    requests = [MatchRequest(i, WORDS, i, i, (first, second), (False,) * 2) for i in range(matches)]
    episodes = play(requests, roles_of=lambda _: roles, engine_of=engines.__getitem__, make_game=make_game)
    return [statistics.mean(column) for column in zip(*(episode.returns for episode in episodes), strict=True)]


def test_good_does_better_than_poor_and_two_good_ones_both_gain():
    good, other = mean_gains("good", "good")
    assert good > 1
    assert other > 1
    assert mean_gains("poor", "good")[0] < mean_gains("random", "good")[0] < good
    assert mean_gains("good", "poor")[1] < 0


def test_pettingzoos_own_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in (WORDS, SMALL):
            api_test(env(name), num_cycles=10)
            seed_test(lambda name=name: env(name), num_cycles=10)


@pytest.mark.parametrize(
    "name", ["simple_negotiation(goods=4)", "simple_negotiation(form=2)", "simple_negotiation(turns=1)"]
)
def test_wrong_sizes_are_refused(name):
    with pytest.raises(UsageError, match="goods is 2 or 3"):
        make_game(name)


def test_words_have_no_exact_values():
    with pytest.raises(NotEnumerable, match="An exact value needs a list of legal actions"):
        sequence_form(WORDS)


@pytest.mark.parametrize(
    "text",
    [
        'The story states "I offer 1 pear for 1 apple"',
        '"I offer 2 apples for 1 pear" (one offer), or "Accept"',
        "Do you agree?",
        "You must leave.",
    ],
)
def test_what_is_only_quoted_or_asked_of_the_other_is_no_reply(text):
    """As SmolLM2-135M-Instruct says it."""
    assert read_reply(text, ANSWERING) is None
    assert read_reply('"accept"', ANSWERING) == 'accept: "accept"'


def test_words_beyond_the_limit_are_not_read():
    assert read_reply("accept " * 100, ANSWERING) is None
    assert GOODS[: len(Trade((1, 0), (0, 1)).give)] == ("apple", "pear")


def test_amounts_may_be_written_out():
    words = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    for amount, word in enumerate(words, 1):
        assert read_trade(f"I offer {word} pears for an apple", 3, 9) == Trade((0, amount, 0), (1, 0, 0))
        assert read_trade(f"Give me {amount} plums for {words[9 - amount]} apples", 3, 9) == Trade(
            (10 - amount, 0, 0), (0, 0, amount)
        )


@pytest.mark.parametrize("seed", range(6))
def test_a_good_trader_asks_for_ever_less_and_begins_with_the_best(seed):
    """Of the one-for-one trades that gain it something, by what they gain; the other asks for all and gives nothing."""
    game = make_game("simple_negotiation(turns=14,form=1)")
    game.reset(seed)
    mine = game.values(0)
    worth = sorted((b - a for a, b in itertools.permutations(mine, 2) if b > a), reverse=True)
    gains = []
    while len(gains) < 6:
        offer = game.scripts()["good"](random.Random(0))
        trade = all_trades(3, 3)[offer]
        assert sum(trade.give) == sum(trade.get) == 1
        gains.append(mine[trade.get.index(1)] - mine[trade.give.index(1)])
        game.apply(offer)
        game.apply(str(Trade((0, 0, 0), (3, 3, 3))))
    assert gains == [worth[turn % len(worth)] for turn in range(6)]
