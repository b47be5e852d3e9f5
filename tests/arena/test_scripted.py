"""Scripted players against known game values, and a person's typed lines."""

import math
import random
import statistics

import pyspiel
import pytest

from arena.records import MatchRequest, ReplyRequest, Tabular
from arena.samplers import scripted
from arena.samplers.human import Human, PersonLeft
from arena.samplers.scripted import Equilibrium, Mcts, Random, solve_cfr
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.openspiel.game import OpenSpielGame, load_pyspiel
from games.registry import make_game
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.players.scripted import scripted_player
from league.theory.exact.exploitability import exploitability
from roles.cards import load_roles, with_overrides

KUHN_VALUE = -1 / 18  # to the first seat (Kuhn, 1950)
UNIFORM_VALUE = 1 / 8  # both uniform: 1/4 bet-pass (+1), 1/8 pass-bet-pass (-1), all showdowns are even


def request_in(game, reply=None, seed=0):
    role = with_overrides(load_roles(game.spec)[game.to_act()], reply=reply)
    seat = game.to_act()
    return ReplyRequest("p", role, game, game.observe(seat), game.legal_actions(), (), random.Random(seed))


def first_seat_returns(players, matches, game="kuhn_poker"):
    requests = [
        MatchRequest(i, game, derive_seed(i, "deal"), derive_seed(i, "sample"), players, (False, False))
        for i in range(matches)
    ]
    engines = {"random": Random(), "equilibrium": Equilibrium(), "mcts": Mcts(100)}
    engines["minimax"] = scripted_player("minimax")
    episodes = play(
        requests,
        roles_of=lambda name: load_roles(make_game(name).spec),
        engine_of=engines.__getitem__,
        make_game=make_game,
        in_flight=1000,
    )
    return [episode.returns[0] for episode in episodes]


def exact_value(engine, name="kuhn_poker"):
    """Return the first seat's expected return when both seats play the engine's distributions."""

    def value(state):
        if state.is_terminal():
            return state.returns()[0]
        if state.is_chance_node():
            return sum(p * value(state.child(outcome)) for outcome, p in state.chance_outcomes())
        (shares,) = engine.distributions([request_in(OpenSpielGame.from_state(name, state))])
        return sum(p * value(state.child(action)) for action, p in zip(state.legal_actions(), shares, strict=True))

    return value(load_pyspiel(name).new_initial_state())


def test_exact_values_of_kuhn():
    assert exact_value(Random()) == pytest.approx(UNIFORM_VALUE, abs=1e-12)
    assert exact_value(Equilibrium()) == pytest.approx(KUHN_VALUE, abs=5e-4)


@pytest.mark.parametrize(("player", "value"), [("random", UNIFORM_VALUE), ("equilibrium", KUHN_VALUE)])
def test_played_values_of_kuhn(player, value):
    returns = first_seat_returns((player, player), 20_000)
    error = statistics.stdev(returns) / math.sqrt(len(returns))
    assert error < 0.012
    assert abs(statistics.mean(returns) - value) < 4 * error


@pytest.mark.parametrize(("name", "limit"), [("kuhn_poker", 1e-3), ("leduc_poker(suit_isomorphism=True)", 5e-3)])
def test_equilibrium_is_hardly_exploitable(name, limit):
    game = load_pyspiel(name)
    policy = pyspiel.TabularPolicy({key: list(shares.items()) for key, shares in solve_cfr(name).shares.items()})
    assert pyspiel.exploitability(game, policy) < limit


def test_equilibrium_plays_three_seats_and_simultaneous_games():
    for name in ("kuhn_poker(players=3)", "matrix_rps"):
        game = make_game(name)
        (shares,) = Equilibrium().distributions([request_in(game)])
        assert sum(shares) == pytest.approx(1.0)
    assert shares == pytest.approx((1 / 3, 1 / 3, 1 / 3), abs=1e-2)  # rock, paper, scissors


def test_distributions_are_over_the_legal_actions_in_their_order():
    game = make_game("kuhn_poker")
    for engine in (Random(), Equilibrium()):
        assert isinstance(engine, Tabular)
        game.reset(1)
        while game.to_act() is not None:
            (shares,) = engine.distributions([request_in(game)])
            assert len(shares) == len(game.legal_actions())
            assert sum(shares) == pytest.approx(1.0)
            game.apply("bet")
    assert not isinstance(Mcts(1), Tabular)
    king_after_bet = next(g for g in deals() if "K" in g.observe(1))
    assert Equilibrium().distributions([request_in(king_after_bet)])[0][1] > 0.999  # the king always calls


def deals():
    for seed in range(50):
        game = make_game("kuhn_poker")
        game.reset(seed)
        game.apply("bet")
        yield game


def test_mcts_takes_the_win_and_beats_random():
    game = make_game("tic_tac_toe")
    for action in ("1", "4", "2", "5"):
        game.apply(action)
    assert {Mcts(200).sample([request_in(game, seed=seed)])[0].text for seed in range(5)} == {"3"}
    opening = make_game("tic_tac_toe")
    assert len({Mcts(5).sample([request_in(opening, seed=7)])[0] for _ in range(5)}) == 1
    assert len({Mcts(5).sample([request_in(opening, seed=seed)])[0] for seed in range(20)}) > 1
    assert statistics.mean(first_seat_returns(("mcts", "random"), 60, "tic_tac_toe")) > 0.8


def test_minimax_says_what_each_cell_comes_to_and_takes_one_of_the_best():
    """At first every cell of tic-tac-toe draws; after 5 a corner draws where an edge loses."""
    player, game = scripted_player("minimax"), make_game("tic_tac_toe")
    assert len({player.sample([request_in(game, seed=seed)])[0].text for seed in range(40)}) == 9
    game.apply("5")
    said = player.sample([request_in(game, reply="free")])[0].text
    assert said.startswith("1 draws, 2 loses, 3 draws, 4 loses, 6 loses, 7 draws, 8 loses, 9 draws, so [")
    assert {player.sample([request_in(game, seed=seed)])[0].text for seed in range(40)} == {*"1379"}
    for action in ("1", "2", "4"):  # O at 1 and 4, X at 5 and 2: crosses win at 8, and must, or noughts win at 7
        game.apply(action)
    said = player.sample([request_in(game, reply="free")])[0].text
    assert said.endswith("8 wins, 9 loses, so [8]")
    assert first_seat_returns(("minimax", "minimax"), 20, "tic_tac_toe") == [0.0] * 20


def test_minimax_is_even_among_the_best_of_each_position():
    game = make_game("tic_tac_toe")
    assert scripted_player("minimax").distributions([request_in(game)]) == [(1 / 9,) * 9]
    game.apply("5")
    assert scripted_player("minimax").distributions([request_in(game)]) == [(1 / 4, 0, 1 / 4, 0, 0, 1 / 4, 0, 1 / 4)]


@pytest.mark.parametrize("player", ["equilibrium", "mcts:300", "minimax"])
@pytest.mark.parametrize("wrapper", ["renamed", "permuted", "paraphrased", "noisy"])
def test_a_game_in_other_words_is_played_as_the_game_itself(player, wrapper):
    """By number of action: what a wrapper calls it, and shows beside it, is nothing to who searches the game."""
    plain = make_game("kuhn_poker" if player == "equilibrium" else "tic_tac_toe")
    wrapped = make_game(f"{wrapper}({plain.spec.name})")
    for game in (plain, wrapped):
        game.reset(3)
    engine = scripted_player(player)
    while plain.to_act() is not None:
        said = [engine.sample([request_in(game, seed=5)])[0].text for game in (plain, wrapped)]
        places = [game.legal_actions().index(text) for game, text in zip((plain, wrapped), said, strict=True)]
        assert places[0] == places[1]
        for game, text in zip((plain, wrapped), said, strict=True):
            game.apply(text)
    assert plain.returns() == wrapped.returns()


@pytest.mark.parametrize(
    "name", ["worded(kuhn_poker)", "informed(kuhn_poker)", "retried(kuhn_poker)", "late(kuhn_poker)"]
)
def test_a_wrapper_that_makes_another_game_is_refused(name):
    with pytest.raises(UsageError, match="equilibrium plays OpenSpiel's games only"):
        Equilibrium().sample([request_in(make_game(name))])


@pytest.mark.parametrize("name", ["renamed(kuhn_poker)", "noisy(leduc_poker)"])
def test_the_equilibrium_of_a_game_in_other_words_cannot_be_exploited(name):
    table = resolve("equilibrium", make_game(name).spec, Engines()).tabulate().table
    assert exploitability(table) < 2e-3


@pytest.mark.parametrize("engine", [Random(), Equilibrium()])
def test_scripted_players_answer_in_the_roles_form(engine):
    game = make_game("kuhn_poker")
    assert engine.sample([request_in(game)])[0].text in ("pass", "bet")
    assert engine.sample([request_in(game, reply="free")])[0].text in ("[pass]", "[bet]")


@pytest.mark.parametrize(
    ("engine", "name", "message"),
    [
        (Equilibrium(), "tic_tac_toe", "has more. Use mcts:100"),
        (Equilibrium(), "tiny_hanabi", "tiny_hanabi is not one"),
        (Equilibrium(), "liars_dice", "has more. Use random"),
        (Mcts(10), "kuhn_poker", "mcts needs perfect information"),
        (Mcts(10), "matrix_rps", "mcts needs perfect information"),
        (scripted_player("minimax"), "kuhn_poker", "minimax needs a game of two without chance or hidden"),
        (scripted_player("minimax"), "connect_four", "connect_four"),
    ],
)
def test_games_a_player_cannot_play_are_refused_in_a_sentence(engine, name, message):
    with pytest.raises(UsageError, match=message):
        engine.sample([request_in(make_game(name))])


def test_mcts_needs_a_simulation():
    with pytest.raises(UsageError, match="one simulation or more"):
        Mcts(0)


def person(*lines):
    shown, left = [], list(lines)

    def read(question):
        if not left:
            raise EOFError
        return left.pop(0)

    return Human(shown.append, read), shown


def test_a_person_is_asked_until_the_action_is_legal():
    human, shown = person("fold", "", "3", " BET ")
    game = make_game("kuhn_poker")
    assert human.sample([request_in(game)])[0].text == "bet"
    assert game.observe(0) in shown[0]
    assert shown[1] == "1: pass   2: bet"
    assert shown[2:] == [f"{line!r} is not one of: pass, bet." for line in ("fold", "", "3")]


def test_a_person_may_type_the_number_and_numbers_that_are_actions_mean_themselves():
    assert person("2")[0].sample([request_in(make_game("kuhn_poker"))])[0].text == "bet"
    board = make_game("tic_tac_toe")
    board.apply("1")
    assert person("1", "2")[0].sample([request_in(board)])[0].text == "2"


@pytest.mark.parametrize("error", [EOFError, KeyboardInterrupt])
def test_a_person_may_leave(error):
    def read(question):
        raise error

    with pytest.raises(PersonLeft):
        play(
            [MatchRequest(0, "kuhn_poker", 1, 2, ("me", "me"), (False, False))],
            roles_of=lambda name: load_roles(make_game(name).spec),
            engine_of=lambda player: Human(lambda text: None, read),
            make_game=make_game,
            in_flight=1,
        )


def test_an_equilibrium_that_misses_its_target_says_by_how_much(capsys, monkeypatch):
    """OpenSpiel's own exploitability of the table is the one that is told; Kuhn poker reaches the target in silence."""
    solve_cfr.cache_clear()
    game = make_game("kuhn_poker")
    Equilibrium().distributions([request_in(game)])
    assert capsys.readouterr().err == ""
    solve_cfr.cache_clear()
    monkeypatch.setattr(scripted, "MAX_VISITS", 58 * 20)  # 20 iterations
    Equilibrium().distributions([request_in(game)])
    table = solve_cfr("kuhn_poker").shares
    solve_cfr.cache_clear()
    policy = pyspiel.TabularPolicy({key: list(shares.items()) for key, shares in table.items()})
    gain = pyspiel.nash_conv(load_pyspiel("kuhn_poker"), policy) / 2
    assert gain > 4e-4
    said = capsys.readouterr().err
    assert "after 20 iterations" in said
    assert f"gains {gain:.2g} a match" in said
    assert "the target was 0.0004" in said


def test_an_exact_policy_takes_the_place_of_one_that_missed_where_it_has_a_say(capsys, monkeypatch):
    """It plays on by CFR+ in the states that the exact policy does not name, and is not asked where CFR+ is near."""
    begin, later = make_game("kuhn_poker"), make_game("kuhn_poker")
    later.apply(later.legal_actions()[0])
    exact, asked = {(0, begin.information_state(0)): {0: 0.25, 1: 0.75}}, []
    solve_cfr.cache_clear()
    Equilibrium(lambda spec: asked.append(spec.name) or exact).distributions([request_in(begin)])
    assert not asked
    solve_cfr.cache_clear()
    monkeypatch.setattr(scripted, "MAX_VISITS", 58 * 20)
    engine = Equilibrium(lambda spec: asked.append(spec.name) or exact)
    assert engine.distributions([request_in(begin)]) == [(0.25, 0.75)]
    assert engine.distributions([request_in(later)]) == Equilibrium().distributions([request_in(later)])
    solve_cfr.cache_clear()
    assert asked == ["kuhn_poker"]
    assert capsys.readouterr().err.count("equilibrium is only approximate") == 1
