"""OpenSpiel games against pyspiel itself: returns, rewards, facts, counts."""

import itertools
import random
import subprocess
import sys

import pyspiel
import pytest
from open_spiel.python.policy import TabularPolicy

from games.common.errors import UsageError
from games.openspiel.game import OpenSpielGame, decision_points, information_state, load_pyspiel
from games.registry import RENDERED, game_facts, game_names, make_game
from games.spec import Game, Utility

UNRENDERED = (
    "matrix_pd",
    "goofspiel(num_cards=3)",
    "python_iterated_prisoners_dilemma",
    "misere(game=kuhn_poker())",
    "coin_game",
    "hanabi",
)


def stand_at(name, history):
    """Return the match that pyspiel's ``history``, chance included, leads to."""
    state = load_pyspiel(name).new_initial_state()
    for action in history:
        state.apply_action(action)
    return OpenSpielGame.from_state(name, state)


@pytest.mark.parametrize("name", [*RENDERED, *UNRENDERED])
def test_every_move_of_random_games_agrees_with_pyspiel(name):
    game = make_game(name)
    rules = load_pyspiel(name)
    rng = random.Random(1)
    for seed in range(200 if name in RENDERED else 5):
        game.reset(seed)
        shadow = rules.new_initial_state()
        paid = [0.0] * game.spec.seats
        while True:
            for action in game.pyspiel_state().history()[len(shadow.history()) :]:
                shadow.apply_action(action)
            assert game.to_act() == (None if shadow.is_terminal() else shadow.current_player())
            assert game.legal_ids() == tuple(shadow.legal_actions())
            assert game.returns() == tuple(shadow.returns())
            assert tuple(paid) == pytest.approx(game.returns())
            if game.to_act() is None:
                break
            choice = rng.randrange(len(game.legal_ids()))
            before = game.pyspiel_state().history()
            action = game.legal_ids()[choice]
            game.apply(game.legal_actions()[choice])
            assert game.pyspiel_state().history()[: len(before) + 1] == [*before, action]
            paid = [total + reward for total, reward in zip(paid, game.rewards(), strict=True)]


def test_kuhn_showdown_after_bet_and_call_pays_two_chips():
    game = stand_at("kuhn_poker", [2, 1])  # K to the first seat, Q to the second
    game.apply("bet")
    assert game.rewards() == (0.0, 0.0)
    game.apply("bet")
    assert game.to_act() is None
    assert game.legal_actions() == ()
    assert game.rewards() == game.returns() == (2.0, -2.0)


def test_kuhn_with_three_seats_fold_and_call():
    game = stand_at("kuhn_poker(players=3)", [0, 3, 2])
    for seat, action in [(0, "bet"), (1, "pass"), (2, "bet")]:
        assert game.to_act() == seat
        game.apply(action)
    assert game.returns() == (-2.0, -1.0, 3.0)


def test_rewards_come_when_the_game_pays_them():
    game = stand_at("python_iterated_prisoners_dilemma", [1, 0, 0])  # defect, cooperate, and play continues
    assert game.rewards() == game.returns() == (10.0, 0.0)
    game.apply("COOPERATE")
    assert game.rewards() == (0.0, 0.0)
    game.apply("COOPERATE")
    assert game.rewards() == (5.0, 5.0)
    assert game.returns() == (15.0, 5.0)


@pytest.mark.parametrize("name", ["matrix_rps", "goofspiel(num_cards=3)", "python_iterated_prisoners_dilemma"])
def test_simultaneous_choices_are_hidden_from_the_second_seat(name):
    start = make_game(name)
    assert start.to_act() == 0
    views = set()
    for action in start.legal_actions():
        game = start.copy()
        game.apply(action)
        assert game.to_act() == 1
        views.add((game.observe(1), game.information_state(1), game.legal_actions()))
    assert len(views) == 1
    assert not start.spec.perfect_information


def test_illegal_action_names_itself_and_the_legal_ones():
    game = make_game("kuhn_poker")
    with pytest.raises(ValueError, match=r"'raise' is not a legal action here; legal: pass, bet"):
        game.apply("raise")
    assert game.to_act() == 0
    for action in ("bet", "pass"):
        game.apply(action)
    with pytest.raises(ValueError, match="the match is over"):
        game.apply("bet")


@pytest.mark.parametrize("name", ["kuhn_poker", "kuhn_poker(players=3)", "leduc_poker", "tiny_hanabi", "matrix_pd"])
def test_decision_points_are_openspiels_information_states(name):
    points = decision_points(name, 1000)
    table = TabularPolicy(load_pyspiel(name))
    assert sorted(points) == sorted(
        (seat, key) for seat, keys in enumerate(table.states_per_player) for key in dict.fromkeys(keys)
    )
    for (seat, key), game in points.items():
        assert game.to_act() == seat
        assert game.information_state(seat) == key == information_state(name, game.pyspiel_state(), seat)


def test_tic_tac_toe_has_4520_boards_to_decide_on():
    assert len(decision_points("tic_tac_toe", 4520)) == 4520  # 5,478 reachable boards, of which 958 are final


def test_decision_points_of_a_large_game_say_how_many_were_visited():
    with pytest.raises(UsageError, match=r"connect_four is too large.*more than 100 information states"):
        decision_points("connect_four", 100)
    with pytest.raises(UsageError, match=r"leduc_poker is too large.*more than 935 information states"):
        decision_points("leduc_poker", 935)


def test_from_state_lets_chance_move_first():
    state = load_pyspiel("kuhn_poker").new_initial_state()
    state.apply_action(2)
    deals = set()
    for seed in range(40):
        game = OpenSpielGame.from_state("kuhn_poker", state, seed)
        assert game.observe(0) == "Your card: K\nMoves: none"
        deals.add(game.observe(1)[11])
    assert deals == {"J", "Q"}


def test_the_caller_may_change_a_state_that_it_was_given():
    game = stand_at("tic_tac_toe", [4])
    game.pyspiel_state().apply_action(0)
    assert game.observe(0) == "1 2 3\n4 X 6\n7 8 9"


def test_facts_of_known_games():
    facts = {spec.name: spec for spec in game_facts()}
    kuhn, three, leduc = (facts[name] for name in ("kuhn_poker", "kuhn_poker(players=3)", "leduc_poker"))
    hanabi, board, fireworks = facts["tiny_hanabi"], facts["tic_tac_toe"], facts[RENDERED[-1]]
    assert (kuhn.seats, kuhn.num_actions, kuhn.max_turns, kuhn.min_return, kuhn.max_return) == (2, 2, 3, -2.0, 2.0)
    assert (three.seats, three.max_turns, three.min_return, three.max_return) == (3, 5, -2.0, 4.0)
    assert (leduc.num_actions, leduc.max_turns, leduc.min_return, leduc.max_return) == (3, 8, -13.0, 13.0)
    assert kuhn.utility is Utility.ZERO_SUM
    assert kuhn.has_chance
    assert not kuhn.perfect_information
    assert kuhn.optimum is None
    assert hanabi.utility is fireworks.utility is Utility.IDENTICAL
    assert (fireworks.seats, fireworks.min_return, fireworks.max_return) == (2, 0.0, 3.0)
    assert board.perfect_information
    assert not board.has_chance
    assert make_game("goofspiel(num_cards=3)").spec.max_turns == 6


def test_optimum_of_tiny_hanabi_by_trying_every_pair_of_policies():
    def score(deal, signals, answers):
        game = stand_at("tiny_hanabi", deal)
        game.apply(signals[deal[0]])
        game.apply(answers[deal[1], signals[deal[0]]])
        return game.returns()[0]

    actions = ("a0", "a1", "a2")
    questions = list(itertools.product((0, 1), actions))
    pays = {
        (deal, signal, answer): score(deal, {deal[0]: signal}, {(deal[1], signal): answer})
        for deal in itertools.product((0, 1), repeat=2)
        for signal, answer in itertools.product(actions, repeat=2)
    }
    best = max(
        sum(
            pays[deal, signals[deal[0]], answers[deal[1], signals[deal[0]]]]
            for deal in itertools.product((0, 1), repeat=2)
        )
        for signals in itertools.product(actions, repeat=2)
        for answers in (dict(zip(questions, chosen, strict=True)) for chosen in itertools.product(actions, repeat=6))
    )
    assert make_game("tiny_hanabi").spec.optimum == best / 4


def test_wrong_names_and_parameters_are_refused():
    with pytest.raises(UsageError, match=r"no game named 'kuhn_pokr'. Did you mean kuhn_poker"):
        make_game("kuhn_pokr")
    with pytest.raises(UsageError, match=r"no parameter of kuhn_poker named 'player'. Did you mean players"):
        make_game("kuhn_poker(player=3)")
    with pytest.raises(UsageError, match="kuhn_poker is for 2 to 10 players, not 99"):
        make_game("kuhn_poker(players=99)")
    with pytest.raises(UsageError, match="Expected type: kInt, got kString with many"):
        make_game("kuhn_poker(players=many)")
    with pytest.raises(UsageError, match="cannot be read"):
        make_game("kuhn_poker(players=3")
    with pytest.raises(UsageError, match="mean-field"):
        make_game("mfg_crowd_modelling")
    with pytest.raises(UsageError, match="numbered actions"):
        make_game("crossword")


def test_names_make_games():
    assert {"kuhn_poker", "tic_tac_toe", "goofspiel"} <= set(game_names())
    assert all(isinstance(make_game(name), Game) for name in ("kuhn_poker", "goofspiel"))
    assert "mfg_crowd_modelling" not in game_names()


def test_facts_import_nothing_heavy():
    code = (
        "import sys; from games.registry import game_facts, game_names; game_facts(), game_names();"
        "print({'numpy', 'torch', 'pettingzoo', 'open_spiel'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_pyspiel_game_is_shared_and_turn_based():
    assert make_game("matrix_pd").pyspiel_game is load_pyspiel("matrix_pd")
    assert load_pyspiel("matrix_pd").get_type().dynamics == pyspiel.GameType.Dynamics.SEQUENTIAL
