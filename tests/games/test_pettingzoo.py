"""Games as PettingZoo environments: the library's own tests, and the rewards that those do not check."""

import random
import warnings

import numpy as np
import pytest
from pettingzoo.test import api_test, seed_test

from games.common.errors import UsageError
from games.openspiel.game import load_pyspiel
from games.pettingzoo import env, raw_env
from games.registry import RENDERED, make_game

OTHERS = ("goofspiel(num_cards=3)", "python_iterated_prisoners_dilemma")


def play(table, rng):
    """Play the match to its end; return each agent's summed rewards and the action ids played."""
    totals = dict.fromkeys(table.possible_agents, 0.0)
    played = []
    for agent in table.agent_iter():
        observation, reward, terminated, truncated, _ = table.last()
        totals[agent] += reward
        action = None
        if not (terminated or truncated):
            action = rng.choice(np.flatnonzero(observation["action_mask"]).tolist())
            played.append(action)
        table.step(action)
    return list(totals.values()), played


@pytest.mark.parametrize("name", [*RENDERED, *OTHERS])
def test_pettingzoos_own_tests(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would rather have plain arrays than a Dict
        api_test(env(name), num_cycles=20)
        seed_test(lambda: env(name), num_cycles=20)


@pytest.mark.parametrize("name", [*RENDERED, *OTHERS])
def test_rewards_sum_to_pyspiels_returns(name):
    table = env(name)
    rng = random.Random(11)
    for seed in range(200 if name in RENDERED else 10):
        table.reset(seed=seed)
        totals, played = play(table, rng)
        state = load_pyspiel(name).new_initial_state()
        chance = [move for move in table.unwrapped._game.pyspiel_state().full_history() if move.player < 0]
        deals, moves = iter(chance), iter(played)
        while not state.is_terminal():
            state.apply_action(next(deals).action if state.is_chance_node() else next(moves))
        assert totals == pytest.approx(state.returns())
        assert next(moves, None) is None
        assert table.agents == []


def test_interleaved_environments_do_not_disturb_each_other():
    def observations(table, seed):
        table.reset(seed=seed)
        rng = random.Random(seed)
        for agent in table.agent_iter():
            observation, reward, terminated, _, _ = table.last()
            yield agent, observation["text"], observation["observation"].tolist(), reward
            table.step(None if terminated else rng.choice(np.flatnonzero(observation["action_mask"]).tolist()))

    alone = [list(observations(env("leduc_poker"), seed)) for seed in range(8)]
    running = [observations(env("leduc_poker"), seed) for seed in range(8)]
    together = [[] for _ in running]
    for _ in range(max(map(len, alone)) + 1):
        for turns, match in zip(together, running, strict=True):
            turns.extend(turn for turn in [next(match, None)] if turn is not None)
    assert together == alone


def test_a_seed_starts_the_same_match_as_in_the_game():
    table, game = env("liars_dice"), make_game("liars_dice")
    for seed in range(20):
        table.reset(seed=seed)
        game.reset(seed)
        assert [table.observe(agent)["text"] for agent in table.agents] == [game.observe(seat) for seat in (0, 1)]


def test_without_a_seed_the_next_match_follows_from_the_last_seed():
    def deals(seed):
        table = env("liars_dice")
        table.reset(seed=seed)
        texts = []
        for _ in range(20):
            table.reset()
            texts.append(tuple(table.observe(agent)["text"] for agent in table.agents))
        return texts

    assert deals(1) == deals(1) != deals(2)
    assert len(set(deals(1))) > 5


@pytest.mark.parametrize("name", [*RENDERED, *OTHERS, "dots_and_boxes", "solitaire"])
def test_observations_lie_in_their_space_and_mask_only_the_seat_to_act(name):
    table = env(name)
    game = make_game(name)
    table.reset(seed=3)
    game.reset(3)
    rng = random.Random(3)
    while (seat := game.to_act()) is not None:
        for index, agent in enumerate(table.possible_agents):
            observation = table.observe(agent)
            assert table.observation_space(agent).contains(observation)
            assert observation["action_mask"].dtype == np.int8
            legal = game.legal_ids() if index == seat else ()
            assert tuple(np.flatnonzero(observation["action_mask"])) == legal
            assert observation["text"] == game.observe(index)
        choice = rng.randrange(len(game.legal_ids()))
        table.step(game.legal_ids()[choice])
        game.apply(game.legal_actions()[choice])


def test_tensor_is_openspiels_information_state():
    table = raw_env("kuhn_poker")
    table.reset(seed=0)
    state = table._game.pyspiel_state()
    assert table.observe("seat_1")["observation"].tolist() == state.information_state_tensor(1)


def test_illegal_action_raises_without_wrappers_and_loses_with_them():
    bare = raw_env("tic_tac_toe")
    bare.reset(seed=0)
    bare.step(4)
    with pytest.raises(ValueError, match=r"action 4 of seat_1 is not legal here; legal: \[0, 1, 2, 3, 5"):
        bare.step(4)
    table = env("tic_tac_toe")
    table.reset(seed=0)
    table.step(4)
    table.step(4)
    assert table.terminations == {"seat_0": True, "seat_1": True}
    assert table.rewards == {"seat_0": 0, "seat_1": -1.0}


def test_render_shows_what_the_seat_to_act_sees():
    table = env("tic_tac_toe", render_mode="ansi")
    table.reset(seed=0)
    table.step(4)
    assert table.render() == "1 2 3\n4 X 6\n7 8 9"


@pytest.mark.parametrize("name", ["kuhn_poker", "goofspiel(num_cards=3)", "tic_tac_toe"])
def test_the_info_of_the_agent_to_act_names_its_actions(name):
    table, rng = env(name), random.Random(5)
    table.reset(seed=5)
    game = make_game(name)
    game.reset(5)
    for agent in table.agent_iter():
        observation, _, over, _, info = table.last()
        assert [other for other in table.agents if table.infos[other]] == ([] if over else [agent])
        if over:
            table.step(None)
            continue
        assert list(info["action_names"]) == np.flatnonzero(observation["action_mask"]).tolist()
        assert tuple(info["action_names"].values()) == game.legal_actions()
        action = rng.choice(list(info["action_names"]))
        table.step(action)
        game.apply(info["action_names"][action])


def test_without_text_an_observation_has_arrays_alone():
    table, worded = env("leduc_poker", text=False), env("leduc_poker")
    table.reset(seed=1)
    worded.reset(seed=1)
    seen, full = table.observe("seat_0"), worded.observe("seat_0")
    assert set(seen) == {"observation", "action_mask"}
    assert table.observation_space("seat_0").contains(seen)
    assert seen["observation"].tolist() == full["observation"].tolist()
    with pytest.raises(UsageError, match="asks for free text"):
        env("debate", text=False)
