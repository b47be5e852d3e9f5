"""RLlib: its own PettingZoo loader takes Kuhn poker, and its PPO learns to beat a player there who draws at random."""

import pytest
import torch
from support.matches.networks import FIRST_SEAT_AGAINST_UNIFORM, UNIFORM, first_seat_return, tabular

from games.pettingzoo import env

ray = pytest.importorskip("ray", reason="Ray is not installed here: pip install 'llm-league[ray]'")


@pytest.fixture
def modules():
    """Return RLModules that read the environment's mask: one that learns, and one that draws at random."""
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
    from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
    from ray.rllib.models.torch.torch_distributions import TorchCategorical

    class Masked(TorchRLModule, ValueFunctionAPI):
        def setup(self):
            self.action_dist_cls = TorchCategorical
            width, actions = self.observation_space["observation"].shape[0], int(self.action_space.n)
            self.actor = torch.nn.Sequential(torch.nn.Linear(width, 32), torch.nn.Tanh(), torch.nn.Linear(32, actions))
            self.critic = torch.nn.Sequential(torch.nn.Linear(width, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

        def _forward(self, batch, **kwargs):
            seen = batch[Columns.OBS]
            shut = (1.0 - seen["action_mask"].float()) * -1e9
            return {Columns.ACTION_DIST_INPUTS: self.actor(seen["observation"]) + shut}

        def compute_values(self, batch, embeddings=None):
            return self.critic(batch[Columns.OBS]["observation"]).squeeze(-1)

    class ByLot(Masked):
        def _forward(self, batch, **kwargs):
            return {Columns.ACTION_DIST_INPUTS: (1.0 - batch[Columns.OBS]["action_mask"].float()) * -1e9}

    return {"seat_0": Masked, "seat_1": ByLot}


@pytest.fixture
def algorithm(modules):
    """Return RLlib's PPO of the first seat; the second draws at random."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.env.wrappers.pettingzoo_env import PettingZooEnv
    from ray.tune.registry import register_env

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    register_env("kuhn", lambda _: PettingZooEnv(env("kuhn_poker", text=False)))
    specs = {seat: RLModuleSpec(module_class=module) for seat, module in modules.items()}
    config = (
        PPOConfig()
        .environment("kuhn")
        .env_runners(num_env_runners=0, batch_mode="complete_episodes")
        .multi_agent(policies=set(specs), policy_mapping_fn=lambda agent, *_, **__: agent, policies_to_train=["seat_0"])
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=specs))
        .training(
            lr=3e-3,
            gamma=1.0,
            entropy_coeff=0.01,
            use_kl_loss=False,
            vf_clip_param=float("inf"),
            train_batch_size_per_learner=1000,
            minibatch_size=250,
            num_epochs=5,
        )
        .debugging(seed=0, log_level="ERROR")
    )
    built = config.build_algo()
    yield built
    built.stop()
    ray.shutdown()


@pytest.mark.slow
def test_ppo_learns_to_beat_who_draws_by_lot(algorithm):
    """Measured exactly. (Two learners of PPO against each other go round in circles in Kuhn poker.)"""
    for _ in range(10):
        algorithm.train()
    module = algorithm.get_module("seat_0")

    def probabilities(seat, numbers, mask):
        seen = {"observation": torch.tensor(numbers)[None], "action_mask": torch.tensor(mask)[None]}
        with torch.no_grad():
            outputs = module.forward_inference({"obs": seen})
        return outputs["action_dist_inputs"].softmax(-1)[0].tolist()

    assert first_seat_return(UNIFORM) == pytest.approx(1 / 8)
    found = first_seat_return(tabular(probabilities))
    assert 0.75 * FIRST_SEAT_AGAINST_UNIFORM < found <= FIRST_SEAT_AGAINST_UNIFORM + 1e-6
