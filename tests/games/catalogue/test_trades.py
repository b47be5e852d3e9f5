"""OpenSpiel's bargaining and colored trails in words: what is said is what OpenSpiel plays, as the cards tell it."""

import random
import re
from statistics import fmean

import pyspiel
import pytest
from open_spiel.python.algorithms import expected_game_score
from open_spiel.python.policy import UniformRandomPolicy

from games.openspiel.colored_trails import TrailsBoard
from games.registry import make_game
from league.theory.exact.exploitability import count_information_states, head_to_head, nash_conv, uniform_table

SMALL = "bargaining(max_num_instances=2,max_turns=2)"


def matches(name, count, script=None):
    for seed in range(count):
        game, rng = make_game(name), random.Random(seed)
        game.reset(seed)
        seen = []
        while (seat := game.to_act()) is not None:
            action = game.scripts()[script](rng) if script else rng.choice(game.legal_actions())
            seen.append((seat, game.observe(seat), action))
            game.apply(action)
        yield game, seen


def counted(text):
    return {name.rstrip("s"): int(number) for number, name in re.findall(r"(\d+) (book|hat|ball)s?", text)}


def test_bargaining_pays_by_the_words_of_its_match():
    """The rules as the card tells them, played from what seats read alone."""
    agreed = 0
    for game, seen in matches("bargaining", 200):
        worth = {}
        for seat, text, _ in seen:
            pool = counted(text.splitlines()[0])
            worth[seat] = {
                name: int(value) for name, value in re.findall(r"(book|hat|ball) (\d+)", text.splitlines()[1])
            }
            assert sum(worth[seat][name] * number for name, number in pool.items()) == 10
        expected = (0.0, 0.0)
        if seen[-1][2] == "agree":
            agreed += 1
            keeper, kept = seen[-2][0], counted(seen[-2][2])
            mine = sum(worth[keeper][name] * kept.get(name, 0) for name in pool)
            theirs = sum(worth[1 - keeper][name] * (pool[name] - kept.get(name, 0)) for name in pool)
            expected = (mine, theirs) if keeper == 0 else (theirs, mine)
        assert game.returns() == expected
    assert agreed > 20


def test_a_golden_bargain():
    game = make_game("bargaining")
    game.reset(0)
    game.apply("keep nothing")
    [first, second, *rest] = game.observe(1).splitlines()
    assert first.startswith("Pool: ")
    assert second.startswith("Worth to you, each: book ")
    assert rest == ["the other: keep nothing", "Turns left: 9."]
    assert game.legal_actions()[-1] == "agree"


def test_the_small_bargain_is_exact():
    assert count_information_states(SMALL, 1000) > 2
    table = uniform_table(SMALL)
    game = pyspiel.load_game(SMALL)
    uniform = UniformRandomPolicy(game)
    expected = expected_game_score.policy_value(game.new_initial_state(), [uniform, uniform])
    assert head_to_head([table, table]) == pytest.approx(tuple(expected))
    assert nash_conv(table) > 0.0


def test_trails_pay_what_the_trade_adds_to_the_scores():
    traded = 0
    for game, seen in matches("colored_trails", 60):
        board = TrailsBoard.read(make_start(game))
        expected = [0.0] * 3
        taken = seen[-1][2]
        trades = re.findall(r"Proposal \d: (.*)", str(game.pyspiel_state()))
        if taken != "no deal" and not trades[int(taken[-1]) - 1].startswith("Pass"):
            traded += 1
            proposer = int(taken[-1]) - 1
            expected[proposer], expected[2] = board.gains(proposer, trades[proposer])
        assert game.returns() == tuple(expected)
    assert traded > 10


def make_start(game):
    """Return the state of a match after the deal."""
    state = game.pyspiel_game.new_initial_state()
    state.apply_action(game.pyspiel_state().history()[0])
    return state


def test_proposers_do_not_see_each_others_chips_or_offers():
    for game, seen in matches("colored_trails", 10):
        (_, first, offer), (_, second, other), (_, third, _) = seen
        assert "second proposer" not in first.partition("Chips: ")[2]
        assert "first proposer" not in second.partition("Chips: ")[2]
        assert "proposer:" not in second
        assert f"First proposer: {offer}\nSecond proposer: {other}" in third
        assert game.spec.seats == 3


@pytest.mark.parametrize("name", ["bargaining", "colored_trails"])
def test_good_players_share_more_than_poor_ones(name):
    good, poor = (fmean(sum(game.returns()) for game, _ in matches(name, 40, script)) for script in ("good", "poor"))
    assert good > poor + 1


def test_good_trails_gain_for_all_who_trade():
    for game, _ in matches("colored_trails", 40, "good"):
        assert min(game.returns()) >= 0.0


def test_a_good_bargainer_takes_more_from_a_poor_one_than_a_poor_one_from_it():
    taken = []
    for seed in range(40):
        game = make_game("bargaining")
        game.reset(seed)
        while (seat := game.to_act()) is not None:
            game.apply(game.scripts()["good" if seat == seed % 2 else "poor"](random.Random(seed)))
        taken.append((game.returns()[seed % 2], game.returns()[1 - seed % 2]))
    assert fmean(mine for mine, _ in taken) > fmean(theirs for _, theirs in taken) + 3
