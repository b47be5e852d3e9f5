"""PettingZoo's environments as games: paid what PettingZoo's own loop is paid, repeated, copied, cut off, refused."""

import importlib.util
import random

import numpy as np
import pytest
from support.matches.aec_envs import Continuous, Dice, Unseeded, wordy

from games.common import plugins
from games.common.errors import UsageError
from games.conformance import faults, random_action
from games.native.judged_arithmetic import JudgedArithmetic
from games.openspiel.game import load_pyspiel
from games.outside.facts import Facts
from games.outside.names import read_name
from games.outside.pettingzoo_game import PettingZooGame
from games.pettingzoo import env
from games.registry import make_game, register_environment
from games.spec import Utility
from league.cli import main

HERE = "pettingzoo:support.matches.aec_envs"
DICE = f"{HERE}.Dice(least=-2,longest=40,most=20)"
KUHN = "pettingzoo:games.pettingzoo(least=-2,most=2,motive=zero_sum,name=kuhn_poker)"
CLASSICS = ("tictactoe_v3", "connect_four_v3", "rps_v2", "leduc_holdem_v4")
needs_pygame = pytest.mark.skipif(importlib.util.find_spec("pygame") is None, reason="the classic games need pygame")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register what is played here, as a plugin does: a name runs nothing else."""
    monkeypatch.setattr(plugins, "_registered", {})
    for make in (Dice, Continuous, Unseeded, wordy):
        register_environment(f"support.matches.aec_envs.{make.__name__}", make)
    register_environment("games.pettingzoo.env", env)


def playing(table, seed, actions):
    """Play PettingZoo's own loop; return what each agent was paid by ``last()``."""
    table.reset(seed=seed)
    totals = dict.fromkeys(table.possible_agents, 0.0)
    for agent in table.agent_iter():
        _, reward, terminated, truncated, _ = table.last()
        totals[agent] += reward
        table.step(None if terminated or truncated else next(actions))
    return list(totals.values())


def lot(game, seed):
    """Play a match at random; return the ids of what was played."""
    game.reset(seed)
    rng, played = random.Random(seed), []
    while game.to_act() is not None:
        choice = rng.randrange(len(game.legal_ids()))
        played.append(game.legal_ids()[choice])
        game.apply(game.legal_actions()[choice])
    return played


@pytest.mark.parametrize("name", [DICE, KUHN, "pettingzoo:support.matches.aec_envs.wordy(least=-4,most=4,seats=3)"])
def test_it_conforms(name):
    assert faults(lambda: make_game(name)) == []


@needs_pygame
@pytest.mark.parametrize("name", CLASSICS)
def test_the_classic_games_conform(name):
    if name.startswith("leduc"):
        pytest.importorskip("rlcard")
    assert faults(lambda: make_game(f"pettingzoo:pettingzoo.classic.{name}"), seeds=range(2)) == []


def test_seats_are_paid_as_in_pettingzoos_own_loop_though_agents_drop_out():
    game, outs = make_game(DICE), 0
    for seed in range(60):
        played = lot(game, seed)
        outs += -2.0 in game.returns()
        state = random.getstate()
        paid = playing(Dice(), seed, iter([action + 5 for action in played]))
        random.setstate(state)
        assert list(game.returns()) == paid
    assert outs > 10


def test_a_game_that_went_out_and_came_in_again_is_itself():
    game, kuhn = make_game(KUHN), make_game("kuhn_poker")
    for seed in range(40):
        played = lot(game, seed)
        kuhn.reset(seed)
        for action in played:
            assert kuhn.legal_ids() != ()
            kuhn.apply(kuhn.legal_actions()[kuhn.legal_ids().index(action)])
        assert kuhn.to_act() is None
        assert game.returns() == kuhn.returns()
        assert game.observe(0).endswith(kuhn.observe(0))
    state = load_pyspiel("kuhn_poker")
    assert (game.spec.seats, game.spec.num_actions) == (state.num_players(), state.num_distinct_actions())


def test_and_goes_out_again_with_its_mask():
    table, rng = env(KUHN), random.Random(1)
    table.reset(seed=3)
    for _ in table.agent_iter():
        seen, _, over, cut, _ = table.last()
        table.step(None if over or cut else rng.choice(np.flatnonzero(seen["action_mask"]).tolist()))
    assert table.agents == []


def test_a_seat_is_told_what_it_saw_and_did_before():
    game = make_game(DICE)
    game.reset(1)
    assert game.legal_actions() == ("0",)  # the mask of its info; the space counts from 5
    game.apply("0")
    assert game.observe(0).startswith("0\n0\nYou chose: 0\n")
    assert "You chose" not in game.observe(1)


def test_a_match_that_goes_on_is_cut_off_and_an_environments_own_truncation_ends_it():
    assert len(lot(make_game(f"{HERE}.Dice(least=-2,longest=4,most=20)"), 0)) == 4
    stubborn = make_game(DICE)
    for seed in range(30):
        stubborn.reset(seed)
        while stubborn.to_act() is not None:
            stubborn.apply("0")  # never stops
        assert set(stubborn.returns()) <= {0.0, -2.0}


def test_facts_that_a_match_breaks_are_told_with_the_name_that_mends_them():
    def many(game):
        for seed in range(20):
            lot(game, seed)

    with pytest.raises(UsageError, match=r"paid from -2 to .*as in .*Dice\(least=-2,most="):
        many(make_game(f"{HERE}.Dice"))
    with pytest.raises(UsageError, match=r"not zero_sum.*motive=general_sum"):
        many(PettingZooGame("mine", Dice, Facts(least=-99, most=99, motive=Utility.ZERO_SUM)))


def test_what_draws_from_a_generator_that_nobody_seeds_is_refused_when_it_is_played_again():
    game = make_game(f"{HERE}.Unseeded(least=-2,most=20)")
    twin = game.copy()
    with pytest.raises(UsageError, match="does not repeat"):
        twin.apply(twin.legal_actions()[0])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{HERE}.Continuous", "not Discrete"),
        ("pettingzoo:support.matches.nowhere", "add --plugin support"),
        ("pettingzoo:nowhere", "add --plugin nowhere"),
        ("pettingzoo:pettingzoo.nowhere", "neither a module"),
        (f"{HERE}.Dice(wrong=3)", "unexpected keyword"),
        (f"{HERE}.Dice(rounds)", "should be key=value"),
        (f"{HERE}.Dice(most=3,least=-2)", "it is written"),
        (f"{HERE}.Dice(longest=0)", "longest is a number of turns"),
        (f"{HERE}.Dice(motive=greed)", "motive is zero_sum"),
        (f"{HERE}.Dice(least=3)", "should be below"),
        ("pettingzoo:", "cannot be read"),
    ],
)
def test_what_cannot_be_a_game_is_refused_in_a_sentence(name, words):
    with pytest.raises(UsageError, match=words):
        make_game(name)


def test_a_name_is_read_and_written_alike():
    name = "pettingzoo:a.b(least=-0.5,most=3,shape=round,text=false)"
    read = read_name(name)
    assert str(read) == name
    assert read.parameters == {"least": -0.5, "most": 3, "shape": "round", "text": False}


def test_the_commands_take_it(capsys):
    assert main(["match", "random", "random", "--game", KUHN, "--matches", "8"]) == 0
    assert "8 matches" in capsys.readouterr().out
    assert main(["games", "show", DICE]) == 0
    assert "Dice" in capsys.readouterr().out


def test_a_fault_is_found_in_a_game_that_has_it():
    class Cheat(PettingZooGame):
        def rewards(self):
            return (0.0, 0.0, 0.0)

        def copy(self):
            return self

    found = faults(lambda: Cheat("cheat", Dice, Facts(least=-2, most=20)), outward=False)
    assert any("rewards sum to" in fault for fault in found)
    assert any("a match changes with its copy" in fault for fault in found)

    class Generous(JudgedArithmetic):
        def named_rewards(self):
            return {"right": (1.0,), "tact": (0.0, 0.0)}

    found = faults(lambda: Generous(right=1), outward=False)
    assert any("it pays the reward 'tact', which its spec does not name" in fault for fault in found) or any(
        "the reward 'right' is paid to 1 seats" in fault for fault in found
    )
    assert faults(lambda: make_game("judged_arithmetic(right=1)"), outward=False) == []
    assert random_action(make_game("kuhn_poker"), random.Random(0)) in ("pass", "bet")
