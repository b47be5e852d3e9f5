"""Public goods: the closed forms of the linear game, unseen gifts, and players that earn what theory says."""

import random

import pytest

from games.common.errors import UsageError
from games.registry import make_game
from games.talk.public_goods import PublicGoods, promised
from league.theory.exact.exploitability import PolicyTable, exact_form, head_to_head, nash_conv
from league.theory.exact.sequence_form import sequence_form

SMALL = "public_goods(seats=2,rounds=2,tokens=1,multiplier=150,talk=0)"


def gives(game, wanted):
    """Return the policy that always gives the least (0) or the most (1) that is legal, and says it."""
    form = sequence_form(game)
    rows = {
        key: tuple(float(number == (len(ids) - 1) * wanted) for number in range(len(ids)))
        for key, ids in zip(form.keys, form.legal, strict=True)
    }
    return PolicyTable(game, rows)


def played(game, gifts):
    for gift in gifts:
        game.apply(f"give {gift}")
    return game


def test_a_round_pays_what_is_kept_and_a_share_of_the_pot():
    game = played(make_game("public_goods(rounds=1,talk=0)"), (4, 0, 2, 1))
    assert game.returns() == pytest.approx((0 + 2.8, 4 + 2.8, 2 + 2.8, 3 + 2.8))  # 1.6 / 4 · 7 = 2.8
    assert game.contributions() == ((4, 0, 2, 1),)


@pytest.mark.parametrize(("seats", "multiplier"), [(2, 150), (3, 90), (4, 160), (16, 300), (4, 600)])
def test_a_token_more_brings_its_giver_the_marginal_return(seats, multiplier):
    game = PublicGoods(seats=seats, rounds=1, tokens=2, multiplier=multiplier, talk=0)
    share = multiplier / 100 / seats
    assert game.marginal_return == pytest.approx(share)
    rng = random.Random(seats)
    for _ in range(20):
        others = [rng.randrange(3) for _ in range(seats - 1)]
        less, more = (played(game.copy(), [gift, *others]).returns() for gift in (1, 2))
        assert more[0] - less[0] == pytest.approx(share - 1)
        assert [b - a for a, b in zip(less[1:], more[1:], strict=True)] == pytest.approx([share] * (seats - 1))


def test_to_give_nothing_is_an_equilibrium_and_to_give_all_is_the_best_for_all():
    """Two seats, factor 1.5, one token, two rounds: nothing pays 2, all pays 3, and who leaves that alone gains ¼ a
    round and seat.
    """
    nothing, everything = gives(SMALL, 0), gives(SMALL, 1)
    assert head_to_head([nothing, nothing]) == pytest.approx((2.0, 2.0))
    assert nash_conv(nothing) == pytest.approx(0.0)
    assert head_to_head([everything, everything]) == pytest.approx((3.0, 3.0))
    assert nash_conv(everything) == pytest.approx(2 * 2 * 0.25)
    assert max(map(sum, exact_form(SMALL).returns)) == pytest.approx(2 * 2 * 1.5)


def test_above_a_share_of_one_to_give_all_is_the_equilibrium():
    """Factor 3 between two: a token brings its giver 1.5."""
    name = "public_goods(seats=2,rounds=1,tokens=1,multiplier=300,talk=0)"
    assert nash_conv(gives(name, 1)) == pytest.approx(0.0)
    assert nash_conv(gives(name, 0)) == pytest.approx(2 * 0.5)


def test_talk_is_cheap():
    """Promises change no payoff: with them, too, to promise all and give nothing is an equilibrium."""
    name = "public_goods(seats=2,rounds=1,tokens=1,multiplier=150,talk=2)"
    form = sequence_form(name)
    rows = {}
    for key, ids in zip(form.keys, form.legal, strict=True):
        talks = min(ids) >= 2  # promises have the ids after the gifts'
        rows[key] = (0.0, 1.0) if talks else (1.0, 0.0)
    assert nash_conv(PolicyTable(name, rows)) == pytest.approx(0.0)


@pytest.mark.parametrize("talk", [0, 1, 2])
def test_good_ones_earn_the_optimum_and_poor_ones_the_equilibrium(talk):
    for script, each in (("good", 5 * 4 * 1.6), ("poor", 5 * 4)):
        game = make_game(f"public_goods(talk={talk})" if talk != 1 else "public_goods")
        while game.to_act() is not None:
            game.apply(game.scripts()[script](random.Random(0)))
        assert game.returns() == pytest.approx((each,) * 4)


def test_a_good_one_among_poor_ones_gives_once():
    game = make_game("public_goods(talk=0)")
    while (seat := game.to_act()) is not None:
        game.apply(game.scripts()["good" if seat == 2 else "poor"](random.Random(0)))
    assert [row[2] for row in game.contributions()] == [4, 0, 0, 0, 0]


def test_gifts_are_unseen_until_all_have_given_and_words_are_quotations():
    game = make_game("public_goods(seats=2)")
    game.apply(game.actions().read('I will give 4."\nplayer 2: "me too'))
    game.apply("I will give 4")
    seen = game.observe(1)
    assert seen.splitlines()[1] == 'player 1: "I will give 4.\\" player 2: \\"me too"'
    other = game.copy()
    game.apply("give 0")
    other.apply("give 3")
    assert (game.observe(1), game.information_state(1)) == (other.observe(1), other.information_state(1))
    assert game.information_state(0) != other.information_state(0)
    game.apply("give 4")
    assert "Round 1: you gave 4, player 1 gave 0." in game.observe(1)


def test_with_recall_only_the_last_rounds_are_shown_and_not_how_many_there_were():
    game = make_game("public_goods(seats=2,rounds=4,tokens=1,talk=0,recall=1)")
    assert "Last round: none." in game.observe(0)
    seen = [played(game, gifts).observe(0) for gifts in ((1, 0), (1, 0), (0, 0))]
    assert seen[0] == seen[1] != seen[2]
    assert seen[0].splitlines()[1:] == ["Last round: you gave 1, player 2 gave 0.", "Now all give."]


@pytest.mark.parametrize(("words", "number"), [("I will give 3", 3), ("I will give 10.", 10), ("I give 3", None)])
def test_promises_are_read(words, number):
    assert promised(words) == number


@pytest.mark.parametrize("name", ["seats=17", "seats=1", "talk=3", "tokens=0", "recall=9"])
def test_wrong_sizes_are_refused(name):
    with pytest.raises(UsageError, match="seats is 2 to 16"):
        make_game(f"public_goods({name})")


def test_each_round_shows_its_own_words_in_the_order_of_the_table():
    game = make_game("public_goods(seats=3,rounds=2)")
    for number, gifts in ((1, (4, 0, 2)), (2, (1, 1, 1))):
        for seat in range(3):
            game.apply(f"words {seat + 1} of round {number}")
        for gift in gifts:
            game.apply(f"give {gift}")
    lines = game.observe(1).splitlines()[1:]
    assert lines == [
        'player 1: "words 1 of round 1"',
        'you: "words 2 of round 1"',
        'player 3: "words 3 of round 1"',
        "Round 1: you gave 0, player 1 gave 4, player 3 gave 2.",
        'player 1: "words 1 of round 2"',
        'you: "words 2 of round 2"',
        'player 3: "words 3 of round 2"',
        "Round 2: you gave 1, player 1 gave 1, player 3 gave 1.",
    ]
