"""Games that are played several times on one deal: what is dealt, what is paid, when it ends."""

import random

import pytest

from games.registry import make_game


def attempts_of(name, seed, actions):
    """Play a game by a function of it; return it with what each attempt began with and paid."""
    game = make_game(name)
    game.reset(seed)
    begun = {}
    while game.to_act() is not None:
        begun.setdefault(game.attempt, game._inner.observe(game.to_act()))
        game.apply(actions(game))
    return game, list(begun.values())


@pytest.mark.parametrize("seed", [3, 11])
@pytest.mark.parametrize("name", ["sums", "kuhn_poker"])
def test_chance_falls_alike_in_each_attempt_and_otherwise_in_another_match(name, seed):
    def first(game):
        return game.actions().labels[0] if name == "kuhn_poker" else game.scripts()["poor"](random.Random(0))

    _, begun = attempts_of(f"retried({name},attempts=4,pays=0)", seed, first)
    assert len(begun) == 4
    assert len(set(begun)) == 1
    others = {attempts_of(f"retried({name},attempts=2,pays=0)", other, first)[1][0] for other in range(20)}
    assert len(others) > 1


def test_a_success_is_one_of_every_seat():
    """In Kuhn poker one seat wins what the other loses, so that no attempt pays both the most: all are played."""
    game, begun = attempts_of("retried(kuhn_poker)", 5, lambda game: game.actions().labels[-1])
    assert len(begun) == 3
    assert sum(game.returns()) == 0
    assert game.returns()[0] != 0


@pytest.mark.parametrize("name", ["kuhn_poker", "sums", "public_goods"])
def test_improvements_have_the_whole_spread_as_their_bounds(name):
    inner, spec = make_game(name).spec, make_game(f"retried({name},pays=2)").spec
    spread = inner.max_return - inner.min_return
    assert (spec.min_return, spec.max_return) == (-spread, spread)
    assert spec.optimum is None
    last = make_game(f"retried({name},pays=0)").spec
    assert (last.min_return, last.max_return) == (inner.min_return, inner.max_return)


def test_who_gets_worse_is_paid_less_than_nothing_by_improvement():
    def worse(game):
        return game.scripts()["optimal" if game.attempt == 1 else "poor"](random.Random(0))

    game, _ = attempts_of("retried(sums,pays=2)", 5, worse)
    assert game.returns() == (-1.0,)
    game, _ = attempts_of("retried(sums,pays=0)", 5, worse)
    assert game.returns() == (0.0,)
    game, begun = attempts_of("retried(sums)", 5, worse)
    assert game.returns() == (1.0,)
    assert len(begun) == 1
