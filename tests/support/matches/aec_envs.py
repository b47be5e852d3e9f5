"""Small PettingZoo environments with what real ones have: agents that drop out, masks in infos, global generators."""

import itertools
import random

import gymnasium
import numpy as np
from pettingzoo import AECEnv


class Dice(AECEnv):
    """Three agents in turn roll or stop. A roll of 1 puts its agent out with −2; stopping earns what was rolled.

    It is truncated after ``rounds`` rounds. Actions are counted from 5, and it draws from ``random``'s own generator.
    """

    metadata = {"name": "dice", "render_modes": []}  # noqa: RUF012
    possible_agents = ["ann", "bob", "cleo"]  # noqa: RUF012

    def __init__(self, rounds=6):
        super().__init__()
        self._rounds = rounds
        self.action_spaces = {agent: gymnasium.spaces.Discrete(2, start=5) for agent in self.possible_agents}
        self.observation_spaces = {agent: gymnasium.spaces.Box(0, 99, (2, 1)) for agent in self.possible_agents}

    def action_space(self, agent):
        return self.action_spaces[agent]

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def reset(self, seed=None, options=None):
        if seed is not None:
            random.seed(seed)
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {"action_mask": np.array([1, 0], np.int8)} for agent in self.agents}
        self.total, self.round = dict.fromkeys(self.agents, 0), 0
        self.agent_selection = "ann"

    def observe(self, agent):
        return np.array([[self.total[agent]], [self.round]], np.float32)

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0
        self.rewards = dict.fromkeys(self.agents, 0)
        if action == 6:
            self.terminations[agent], self.rewards[agent] = True, min(self.total[agent], 20)
        elif (rolled := random.randint(1, 6)) == 1:
            self.terminations[agent], self.rewards[agent] = True, -2
        else:
            self.total[agent] += rolled
            self.infos[agent] = {"action_mask": np.array([1, 1], np.int8)}
        self._accumulate_rewards()
        order = itertools.cycle(self.agents)
        next(other for other in order if other == agent)
        self.agent_selection = next(order)
        if self.agents.index(self.agent_selection) <= self.agents.index(agent):
            self.round += 1
            if self.round == self._rounds:
                self.truncations = dict.fromkeys(self.agents, True)
        self._deads_step_first()


class Unseeded(Dice):
    """The same from a generator that nothing seeds."""

    _system = random.SystemRandom()

    def observe(self, agent):
        return np.array([[self.total[agent]], [self._system.random()]], np.float32)

    def reset(self, seed=None, options=None):
        super().reset()
        names = {5: f"roll {self._system.random()}", 6: "stop"}
        self.infos = {agent: {"action_names": names} for agent in self.agents}


class Continuous(Dice):
    """The same with a number that is no choice."""

    def __init__(self):
        super().__init__()
        self.action_spaces = dict.fromkeys(self.possible_agents, gymnasium.spaces.Box(0, 1, (1,)))


def wordy(seats):
    """Return an environment that tells its words: Kuhn poker of this many seats, from games.pettingzoo."""
    from games.pettingzoo import env

    return env(f"kuhn_poker(players={seats})")
