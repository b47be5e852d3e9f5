"""Simultaneous moves as parallel environments: PettingZoo's own test, and the matches of the turn-based environment."""

import random
import warnings

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from games.common.errors import UsageError
from games.openspiel.game import load_pyspiel
from games.pettingzoo_parallel import parallel_env

SIMULTANEOUS = ("goofspiel(num_cards=4)", "matrix_rps", "python_iterated_prisoners_dilemma", "oshi_zumo")


@pytest.mark.parametrize("name", SIMULTANEOUS)
def test_pettingzoos_own_test(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would rather have plain arrays than a Dict
        parallel_api_test(parallel_env(name), num_cycles=30)


@pytest.mark.parametrize("name", SIMULTANEOUS)
def test_every_agent_acts_in_every_round_and_rewards_are_pyspiels_returns(name):
    table, rng = parallel_env(name), random.Random(1)
    for seed in range(10):
        observations, infos = table.reset(seed=seed)
        totals, rounds = dict.fromkeys(table.agents, 0.0), []
        while table.agents:
            masks = {agent: seen["action_mask"] for agent, seen in observations.items()}
            assert all(mask.any() for mask in masks.values())
            assert all(list(infos[a]["action_names"]) == np.flatnonzero(m).tolist() for a, m in masks.items())
            rounds.append({agent: rng.choice(np.flatnonzero(mask).tolist()) for agent, mask in masks.items()})
            observations, rewards, _, _, infos = table.step(rounds[-1])
            totals = {agent: total + rewards[agent] for agent, total in totals.items()}
        state = load_pyspiel(name).new_initial_state()
        chance = [m.action for m in table._table.game.pyspiel_state().full_history() if m.player < 0]
        deals, moves = iter(chance), iter([action for actions in rounds for action in actions.values()])
        while not state.is_terminal():
            state.apply_action(next(deals) if state.is_chance_node() else next(moves))
        assert list(totals.values()) == pytest.approx(state.returns())


def test_nobody_sees_what_the_others_choose_in_a_round():
    first, second = parallel_env("goofspiel(num_cards=4)"), parallel_env("goofspiel(num_cards=4)")
    (seen, _), (others, _) = first.reset(seed=2), second.reset(seed=2)
    for agent in first.agents:
        assert seen[agent]["text"] == others[agent]["text"]
        assert seen[agent]["observation"].tolist() == others[agent]["observation"].tolist()


@pytest.mark.parametrize("name", ["kuhn_poker", "debate"])
def test_a_game_in_turns_is_refused(name):
    with pytest.raises(UsageError, match="move one after another"):
        parallel_env(name)
