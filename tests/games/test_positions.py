"""Matches that share one tree of positions: seeds, copies, pickles, and no trace of each other."""

import itertools
import pickle
import random
from collections import Counter

import pytest

from games.openspiel.game import OpenSpielGame, load_pyspiel
from games.openspiel.positions import Chance, PositionTree, distinct, next_random
from games.openspiel.renderers import renderer_for
from games.registry import RENDERED, make_game


def play_randomly(game, rng):
    """Play to the end and return seat, observation and label, turn by turn."""
    turns = []
    while (seat := game.to_act()) is not None:
        action = rng.choice(game.legal_actions())
        turns.append((seat, game.observe(seat), action))
        game.apply(action)
    return turns


def test_generator_is_splitmix64():
    generator = 1234567
    for expected in [6457827717110365317, 3203168211198807973, 9817491932198370423]:
        generator, number = next_random(generator)
        assert number == (expected >> 11) / 2**53


def test_deals_are_uniform_over_consecutive_seeds():
    game = make_game("kuhn_poker")
    deals = Counter()
    for seed in range(6000):
        game.reset(seed)
        deals[tuple(game.observe(seat)[11] for seat in (0, 1))] += 1
    assert set(deals) == set(itertools.permutations("JQK", 2))
    assert all(abs(count - 1000) < 5 * 29 for count in deals.values())  # 29: a binomial's standard deviation


@pytest.mark.parametrize("name", [*RENDERED, "negotiation"])
def test_same_seed_and_actions_give_the_same_match(name):
    first, second = make_game(name), make_game(name)
    for seed in (0, 7, 2**63 - 1):
        first.reset(seed)
        turns = play_randomly(first, random.Random(seed))
        second.reset(seed)
        assert play_randomly(second, random.Random(seed)) == turns
        assert first.returns() == second.returns()


def test_different_seeds_give_different_deals():
    game = make_game("liars_dice")
    deals = set()
    for seed in range(200):
        game.reset(seed)
        deals.add((game.observe(0), game.observe(1)))
    assert len(deals) == 36


def test_interleaved_matches_do_not_disturb_each_other():
    def turns(game, rng):
        while (seat := game.to_act()) is not None:
            action = rng.choice(game.legal_actions())
            yield seat, game.observe(seat), action
            game.apply(action)
        yield game.returns()

    def start(index):
        game = make_game("leduc_poker")
        game.reset(index)
        return turns(game, random.Random(index))

    alone = [list(start(index)) for index in range(20)]
    together = [[] for _ in alone]
    running = dict(enumerate(map(start, range(20))))
    while running:
        for index, match in list(running.items()):
            turn = next(match, None)
            if turn is None:
                del running[index]
            else:
                together[index].append(turn)
    assert together == alone


@pytest.mark.parametrize("name", [*RENDERED, "negotiation", "goofspiel(num_cards=3)"])
@pytest.mark.parametrize("twin_of", [OpenSpielGame.copy, lambda game: pickle.loads(pickle.dumps(game))])  # noqa: S301
def test_copies_and_pickles_play_on_alike_and_independently(name, twin_of):
    for seed in range(5):
        game = make_game(name)
        game.reset(seed)
        while game.to_act() is not None:
            twin, other = twin_of(game), twin_of(game)
            assert (twin.returns(), twin.rewards()) == (game.returns(), game.rewards())
            play_randomly(other, random.Random(seed + 1))
            later_twin = twin_of(game)
            assert play_randomly(twin, random.Random(seed)) == play_randomly(later_twin, random.Random(seed))
            assert twin.returns() == later_twin.returns()
            game.apply(game.legal_actions()[seed % len(game.legal_actions())])


def test_positions_beyond_the_node_limit_are_the_same():
    game = load_pyspiel("leduc_poker")
    large, small = (PositionTree(game, renderer_for(game), node_limit=limit) for limit in (100_000, 5))
    rng = random.Random(3)
    for _ in range(50):
        history = []
        while True:
            wide, narrow = large.follow(history), small.follow(history)
            assert type(wide) is type(narrow)
            if isinstance(wide, Chance):
                history.append(rng.choice(wide.outcomes))
                continue
            assert (wide.choices, wide.seat) == (narrow.choices, narrow.seat)
            assert (wide.returns, wide.rewards) == (narrow.returns, narrow.rewards)
            if wide.seat is None:
                break
            assert wide.text(wide.seat) == narrow.text(wide.seat)
            history.append(rng.choice(wide.choices.ids))
    assert small._nodes == 5


def test_equal_labels_are_distinguished_by_their_ids():
    assert distinct(["up", "go", "go"], (4, 7, 9)) == ("up", "go #7", "go #9")
