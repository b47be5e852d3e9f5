"""Stable-Baselines3: MaskablePPO learns Kuhn poker against random play through the PettingZoo environment."""

import gymnasium
import numpy as np
import pytest
from support.matches.networks import BEST_AGAINST_UNIFORM, UNIFORM, return_against_uniform, tabular

from games.pettingzoo import env

pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed here: make test-outward has it")
torch = pytest.importorskip("torch")


class AgainstRandom(gymnasium.Env):
    """One seat of a two-seat table, drawn for each match; the other plays its legal actions at random."""

    def __init__(self, name, seed):
        self._table, self._rng = env(name, text=False), np.random.default_rng(seed)
        self._table.reset(seed=seed)
        agent = self._table.possible_agents[0]
        self.observation_space = self._table.observation_space(agent)["observation"]
        self.action_space = self._table.action_space(agent)

    def reset(self, *, seed=None, options=None):
        self._table.reset(seed=seed)
        self._agent = self._rng.choice(self._table.possible_agents)
        return self._next()[0], {}

    def step(self, action):
        self._table.step(action)
        return *self._next(), False, {}

    def action_masks(self):
        return self._table.observe(self._agent)["action_mask"].astype(bool)

    def _next(self):
        """Play on to the agent's next turn; return its observation, its pay, and whether the match is over."""
        while True:
            _, reward, over, _, info = self._table.last()
            if over or self._table.agent_selection == self._agent:
                return self._table.observe(self._agent)["observation"], self._reward(reward, over), over
            self._table.step(self._rng.choice(list(info["action_names"])))

    def _reward(self, reward, over):
        return float(self._table.unwrapped._cumulative_rewards[self._agent] if over else reward)


@pytest.mark.slow
def test_maskable_ppo_beats_random_play_and_nothing_beats_it_by_more_than_theory_allows():
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.env_checker import check_env

    check_env(AgainstRandom("kuhn_poker", 1), warn=False)
    model = MaskablePPO(
        "MlpPolicy", AgainstRandom("kuhn_poker", 0), learning_rate=3e-3, n_steps=512, gamma=1.0, seed=0, device="cpu"
    )
    model.learn(8192)

    def probabilities(_, numbers, mask):
        observation = model.policy.obs_to_tensor(numbers)[0]
        with torch.no_grad():
            return model.policy.get_distribution(observation, action_masks=mask[None]).distribution.probs[0].tolist()

    assert return_against_uniform(UNIFORM) == pytest.approx(0.0, abs=0.1)
    found = return_against_uniform(tabular(probabilities))
    assert 0.75 * BEST_AGAINST_UNIFORM < found <= BEST_AGAINST_UNIFORM + 1e-6
