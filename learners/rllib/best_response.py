"""A best response by reinforcement learning: an RLlib PPO player against any frozen player.

A trained exploiter's return is a lower bound on a best response's, and can be computed where a game is too
large to enumerate (Timbers et al., 2022, "Approximate Exploitability: Learning a Best Response",
arXiv:2004.09677). PPO is Schulman et al., 2017 (arXiv:1707.06347).

The policy is an RLModule and the update an RLlib Learner. Matches are played in our PettingZoo environments
(``attack_env``) and not by RLlib's EnvRunners, which step each environment by itself: here one call of the frozen
player's engine serves all environments. No Ray process is started. This is the only module that imports RLlib.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME
from torch import Tensor

from arena.lm.tensors import aligned
from arena.samplers.policy_net import UNLIMITED, Budget, Inputs, PolicyNet, Reference, attack_policy, num_features
from games.common.seeds import derive_seed
from games.pettingzoo import raw_env
from learners.rllib.attack_env import AttackEnvs, AttackMatch, FrozenPlayer

CLIP = 0.3  # of PPO's ratio, RLlib's default; partial control moves the played policy less in proportion
_MIN_PROBABILITY = 1e-30  # its logarithm stands for an impossible action's


@dataclass(frozen=True, slots=True)
class BestResponseConfig:
    """How an exploiter is trained."""

    seats: tuple[int, ...]  # the seats that it learns to play
    seed: int = 0
    budget: Budget = UNLIMITED
    reference: Reference | None = None  # needed where the budget has a bound
    batch: int = 2_000  # least number of the exploiter's decisions in an update
    minibatch: int = 500
    epochs: int = 8
    learning_rate: float = 3e-3
    learning_rate_end: float = 3e-5
    steps: int | None = None  # decisions over which the rate falls linearly to its end; None: it is constant
    entropy: float = 0.01
    hidden: int = 64
    envs: int = 256  # matches in progress at once


class TrainingProgress(NamedTuple):
    """Training's progress after an update."""

    steps: int  # decisions of the exploiter so far
    mean_return: float  # over the update's matches, in the game's units


class ExploiterModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]  # RLlib's classes are untyped here
    """Actor and critic: two perceptrons on a flat observation: features, mask, reference, then what every seat sees.

    Only the critic reads the last part. A baseline that depends on the other seats' cards adds no bias, as it does not
    depend on the action, and removes the variance of the deal from the advantages (Pinto et al., 2018, "Asymmetric
    Actor Critic for Image-Based Robot Learning", arXiv:1710.06542).
    """

    def setup(self) -> None:
        """Build the networks from ``model_config``."""
        shape = self.model_config
        self.action_dist_cls = TorchCategorical
        self.features, self.actions, self.budget = shape["features"], shape["actions"], Budget(*shape["budget"])
        self.policy = PolicyNet(self.features, shape["hidden"], self.actions)
        self.critic = PolicyNet(self.features + shape["everyone"], shape["hidden"], 1)

    def probabilities(self, observations: Tensor) -> Tensor:
        """Return the policy under mask and budget [N, A] for flat observations [N, F + 2A + H]."""
        hidden = observations.shape[-1] - self.features - 2 * self.actions
        parts = aligned(observations)  # they come from NumPy
        numbers, mask, reference, _ = parts.split((self.features, self.actions, self.actions, hidden), dim=-1)
        inputs = Inputs(numbers, mask, reference)
        return attack_policy(self.policy(inputs.numbers), inputs, self.budget)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the logarithms of ``probabilities``, which are logits of the same policy."""
        return {Columns.ACTION_DIST_INPUTS: self.probabilities(batch[Columns.OBS]).clamp(min=_MIN_PROBABILITY).log()}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return the critic's values [N]: the expected remaining return, in shares of the game's span."""
        observations = batch[Columns.OBS]
        parts = [observations[:, : self.features], observations[:, self.features + 2 * self.actions :]]
        values: Tensor = self.critic(torch.cat(parts, dim=-1))
        return values.squeeze(-1)


class BestResponse:
    """A training run, which the caller advances update by update."""

    def __init__(self, target: FrozenPlayer, config: BestResponseConfig) -> None:
        """Create a new network. Raises UsageError for a game without observation tensors."""
        spec = target.spec
        self._config = config
        self._span = (spec.max_return - spec.min_return) or 1.0
        self._envs = AttackEnvs(target, config.seats, config.reference, derive_seed(config.seed, "attack"), config.envs)
        self._learner = _learner(raw_env(spec.name), config)
        self._module: ExploiterModule = self._learner.module[DEFAULT_MODULE_ID]
        self._draws = torch.Generator().manual_seed(derive_seed(config.seed, "actions"))
        self._steps = 0

    @property
    def network(self) -> PolicyNet:
        """The current policy."""
        return self._module.policy

    def update(self) -> TrainingProgress:
        """Play a batch of matches and learn from it."""
        matches = self._envs.play(self._config.batch, self._act)
        decided = [match for match in matches if match.decisions]
        self._steps += sum(len(match.decisions) for match in decided)
        self._learner.update(
            episodes=[_episode(number, match, self._span) for number, match in enumerate(decided)],
            num_epochs=self._config.epochs,
            minibatch_size=self._config.minibatch,
            timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: self._steps},
        )
        return TrainingProgress(self._steps, sum(match.total for match in matches) / len(matches))

    @torch.inference_mode()
    def _act(self, observations: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Draw actions [N] for observations [N, F + 2A + H]; return the policy's probabilities [N, A] too."""
        policy = self._module.probabilities(torch.from_numpy(observations))
        return torch.multinomial(policy, 1, generator=self._draws).squeeze(-1).numpy(), policy.numpy()


def _episode(number: int, match: AttackMatch, span: float) -> SingleAgentEpisode:
    """Return a match as an RLlib episode, its rewards in shares of ``span``."""
    policies = [np.log(np.maximum(decision.policy, _MIN_PROBABILITY)) for decision in match.decisions]
    observations = [decision.observation for decision in match.decisions]
    return SingleAgentEpisode(
        id_=str(number),
        observations=[*observations, np.zeros_like(observations[0])],  # RLlib wants one after the end; it is not used
        actions=[decision.action for decision in match.decisions],
        rewards=[reward / span for reward in match.rewards],
        terminated=True,
        extra_model_outputs={
            Columns.ACTION_DIST_INPUTS: policies,
            Columns.ACTION_LOGP: [
                row[decision.action] for row, decision in zip(policies, match.decisions, strict=True)
            ],
        },
        len_lookback_buffer=0,
    )


def _learner(env: raw_env, config: BestResponseConfig) -> Any:
    """Return RLlib's PPO learner of a new module. Episodes are whole matches, so nothing is discounted."""
    seat = env.possible_agents[config.seats[0]]
    observations, actions = env.observation_space(seat), env.action_space(seat)
    logging.getLogger("ray").setLevel(logging.ERROR)  # RLlib warns about its own use of deprecated functions
    module = RLModuleSpec(
        module_class=ExploiterModule,
        observation_space=observations,
        action_space=actions,
        model_config={
            "features": num_features(env.game),
            "everyone": (num_features(env.game) - env.spec.seats) * env.spec.seats,
            "actions": env.spec.num_actions,
            "hidden": config.hidden,
            "budget": tuple(config.budget),
        },
    )
    # A confident policy has small gradients, but Adam's steps stay as large: at a constant rate it drifts off again.
    falling = [[0, config.learning_rate], [config.steps, config.learning_rate_end]]
    ppo = PPOConfig().training(
        lr=falling if config.steps else config.learning_rate,
        gamma=1.0,
        lambda_=0.95,
        entropy_coeff=config.entropy,
        use_kl_loss=False,
        clip_param=CLIP * config.budget.control,
        vf_clip_param=float("inf"),
        train_batch_size_per_learner=config.batch,
        grad_clip=0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(config.seed, "network"))
        return ppo.rl_module(rl_module_spec=module).build_learner(spaces={DEFAULT_MODULE_ID: (observations, actions)})
