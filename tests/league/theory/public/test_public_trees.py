"""Public trees give OpenSpiel's own figures, and in games that OpenSpiel cannot walk the published ones."""

import numpy as np
import pyspiel
import pytest
from open_spiel.python import policy as openspiel_policy
from open_spiel.python.algorithms.cfr import CFRPlusSolver
from open_spiel.python.algorithms.exploitability import exploitability as exploitability_by_openspiel

from games.common.errors import UsageError
from league.theory.public import reading
from league.theory.public.from_openspiel import public_tree
from league.theory.public.liars_dice import liars_dice
from league.theory.public.measures import best_responses, counterfactual_values, exploitability, returns, solve
from league.theory.public.reading import read_policy
from league.theory.public.tree import PublicTree

POKER = "universal_poker(betting=limit,numPlayers=2,blind=1 1,raiseSize={raises},firstPlayer=1 1,maxRaises={most},"
POKER += "numRounds={rounds},numSuits={suits},numRanks={ranks},numHoleCards=1,numBoardCards=0 {board})"
KUHN_7 = POKER.format(raises="1 1", most="1 1", rounds=1, suits=1, ranks=7, board=0)  # Kuhn poker with 7 cards
LEDUC_4 = POKER.format(raises="2 4", most="2 2", rounds=2, suits=2, ranks=4, board=1)  # Leduc poker with 4 ranks
LEDUC_3_SUITS = POKER.format(raises="2 4", most="2 2", rounds=2, suits=3, ranks=2, board=1)
DICE = ("liars_dice(dice_sides=3,numdice=1)", "liars_dice(dice_sides=2,numdice=2)")
GAMES = ("kuhn_poker", "leduc_poker", *DICE, KUHN_7, LEDUC_4, LEDUC_3_SUITS)
TREES = {
    "kuhn_poker": lambda: public_tree("kuhn_poker"),
    "kuhn_7": lambda: public_tree(KUHN_7),
    "leduc_3_suits": lambda: public_tree(LEDUC_3_SUITS),
    "dice": lambda: liars_dice(1, 3),
    "two": lambda: liars_dice(2, 2),
}


def drawn(tree, seed):
    """Return a random policy: each hand mixes its moves apart, some of them never played."""
    rng = np.random.default_rng(seed)
    policy = rng.gamma(0.3, size=tree.uniform().shape) + 1e-9
    for _, children in tree.families():
        starts = tree.first_children(children)
        counts = np.diff([*starts, children.stop - children.start])
        policy[children] /= np.repeat(np.add.reduceat(policy[children], starts), counts, axis=0)
    tree.check(policy)
    return policy


@pytest.mark.parametrize("game", GAMES)
def test_a_uniform_policy_is_as_exploitable_as_openspiel_says(game):
    loaded = pyspiel.load_game(game)
    tree = public_tree(game)
    expected = exploitability_by_openspiel(loaded, openspiel_policy.UniformRandomPolicy(loaded))
    assert exploitability(tree, tree.uniform()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", range(5))
def test_a_drawn_policy_is_as_exploitable_as_openspiel_says(name, seed):
    """Its table is written into OpenSpiel's as a player is asked: hands and moves must not be mixed up."""
    tree = TREES[name]()
    policy = drawn(tree, seed)
    loaded = pyspiel.load_game(tree.game)
    table = openspiel_policy.TabularPolicy(loaded)
    rng = np.random.default_rng(seed)
    rows = {}

    def answer(positions):
        answers = []
        for seat, game in positions:
            assert game.to_act() == seat
            key = game.pyspiel_state().information_state_string(seat)
            assert key not in rows, "asked once"
            rows[key] = rng.dirichlet(np.ones(len(game.legal_ids())))
            table.policy_for_key(key)[:] = 0.0
            table.policy_for_key(key)[list(game.legal_ids())] = rows[key]
            answers.append(rows[key])
        return answers

    read = read_policy(tree, answer)
    tree.check(read)
    assert len(rows) == tree.information_states
    expected = exploitability_by_openspiel(loaded, table)
    assert exploitability(tree, read) == pytest.approx(expected, abs=1e-9)
    value = sum(counterfactual_values(tree, policy, seat, best=False)[0].sum() for seat in (0, 1))
    assert value == pytest.approx(0.0, abs=1e-12)  # what one seat wins the other loses
    assert min(best_responses(tree, policy)[0] - returns(tree, policy), 0.0) > -1e-12


@pytest.mark.parametrize(("dice", "faces"), [(1, 2), (1, 4), (2, 2)])
def test_the_tree_of_liars_dice_is_openspiels(dice, faces):
    written, found = liars_dice(dice, faces), public_tree(f"liars_dice(dice_sides={faces},numdice={dice})")
    for name in ("parent", "action", "levels"):
        assert np.array_equal(getattr(written, name), getattr(found, name)), name
    policy = drawn(written, 3)
    assert best_responses(written, policy) == pytest.approx(best_responses(found, policy), abs=1e-12)
    assert written.information_states == found.information_states


def test_sizes():
    """1 die of 6 faces: 24,576 information states, as OpenSpiel has; a hand that the public card rules out is none."""
    assert liars_dice(1, 6).information_states == 24_576
    assert public_tree("leduc_poker").information_states == 936
    assert public_tree("kuhn_poker").information_states == 12


@pytest.mark.parametrize(
    ("game", "value", "within"),
    [
        ("kuhn_poker", -1 / 18, 1e-4),
        ("leduc_poker", -0.085606, 2e-3),
        ("liars_dice(dice_sides=3,numdice=1)", 1 / 9, 1e-4),
    ],
)
def test_cfr_plus_comes_to_the_games_value(game, value, within):
    tree = public_tree(game)
    policy = solve(tree, 300)
    tree.check(policy)
    gap = exploitability(tree, policy)
    assert gap < 2 * within + 1e-3
    assert abs(returns(tree, policy) - value) <= 2 * gap  # at an equilibrium's distance


def test_games_that_are_not_played_in_the_open_are_refused():
    with pytest.raises(UsageError, match=r"does not have public moves only|zero-sum game of two"):
        public_tree("goofspiel(imp_info=True,num_cards=3,points_order=descending)")
    with pytest.raises(UsageError, match="zero-sum game of two seats"):
        public_tree("kuhn_poker(players=3)")
    with pytest.raises(UsageError, match="more than 100 public positions"):
        public_tree("leduc_poker", limit=100)


def test_a_policy_that_is_none_is_refused():
    tree = liars_dice(1, 2)
    with pytest.raises(ValueError, match="shape"):
        tree.check(tree.uniform()[:-1])
    wrong = tree.uniform()
    wrong[1, 0] += 0.1
    with pytest.raises(ValueError, match="seat 0 do not sum to one"):
        tree.check(wrong)


@pytest.mark.parametrize("game", ["kuhn_poker", "liars_dice(dice_sides=2,numdice=1)"])
def test_cfr_plus_takes_openspiels_steps(game):
    """Its average after a few iterations, not only where it comes to: regrets from 0 up, averages by time."""
    solver = CFRPlusSolver(pyspiel.load_game(game))
    for _ in range(6):
        solver.evaluate_and_update_policy()
    expected = exploitability_by_openspiel(pyspiel.load_game(game), solver.average_policy())
    tree = public_tree(game)
    assert exploitability(tree, solve(tree, 6)) == pytest.approx(expected, abs=1e-9)


def test_how_many_states_were_asked_is_told_as_a_running_sum(monkeypatch):
    monkeypatch.setattr(reading, "FIRST_BATCH", 5)
    tree, told = public_tree("kuhn_poker"), []
    read_policy(tree, lambda asked: [[0.5, 0.5] for _ in asked], told.append)
    assert told == sorted(told)
    assert told[-1] == 12
    assert len(told) > 1


def test_hands_are_ruled_out_seat_by_seat():
    """Seat 0 moves once; it can hold the first of two hands, the other seat two of three."""
    chances = np.zeros((2, 2, 3))
    chances[:, 0, :2] = 0.5
    tree = PublicTree(
        "small",
        (("a", "b"), ("x", "y", "z")),
        parent=np.array([-1, 0, 0]),
        action=np.array([-1, 0, 1]),
        seat=np.array([0, 1, 1]),
        ending=np.array([-1, 0, 1]),
        levels=np.array([0, 1, 3]),
        chances=chances,
        returns=np.ones((2, 2, 3)),
    )
    assert tree.possible(0).tolist() == [[True, False]] * 3
    assert tree.possible(1).tolist() == [[True, True, False]] * 3
    assert tree.information_states == 1
