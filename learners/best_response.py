"""A best response by reinforcement learning: an RLlib PPO player against any frozen player.

What a trained exploiter wins is a lower bound on what a best response would win, and it can be had where a game
is too large to be counted out (Timbers et al., 2022, "Approximate Exploitability: Learning a Best Response",
arXiv:2004.09677). PPO is Schulman et al., 2017 (arXiv:1707.06347).

The policy is an RLModule and the update an RLlib Learner. Matches are played at our PettingZoo tables
(attack_matches.py) and not in RLlib's own runners, which step each table by itself: here one call of the frozen
player's engine serves all tables. No Ray process is started. This is the only module that imports RLlib.
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
from torch import Tensor

from arena.samplers.network import UNLIMITED, Budget, Inputs, PolicyNet, Reference, attack_policy, features_of
from games.pettingzoo import raw_env
from games.seeds import derive_seed
from learners.attack_matches import AttackMatch, AttackTables, FrozenPlayer

_LEAST = 1e-30  # probability whose logarithm stands for that of an impossible action


@dataclass(frozen=True, slots=True)
class Training:
    """How an exploiter is trained."""

    seats: tuple[int, ...]  # that it learns to play
    seed: int = 0
    budget: Budget = UNLIMITED
    reference: Reference | None = None  # needed where the budget has a bound
    batch: int = 2_000  # decisions of its own in one update, at least
    minibatch: int = 500
    epochs: int = 8
    learning_rate: float = 3e-3
    entropy: float = 0.01
    hidden: int = 64
    tables: int = 256  # matches side by side


class Progress(NamedTuple):
    """Where training stands after an update."""

    steps: int  # decisions of the exploiter so far
    mean_return: float  # a match, in this update's matches, in the game's units


class ExploiterModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]  # RLlib's classes are untyped here
    """Actor and critic: two perceptrons of a flat observation: numbers, mask, reference, then what every seat sees.

    The critic alone reads the last part. A baseline that knows the others' cards biases nothing, as it does not
    depend on the action, and takes the luck of the deal out of the advantages (Pinto et al., 2018, "Asymmetric Actor
    Critic for Image-Based Robot Learning", arXiv:1710.06542).
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
        numbers, mask, reference, _ = observations.split((self.features, self.actions, self.actions, hidden), dim=-1)
        inputs = Inputs(numbers, mask, reference)
        return attack_policy(self.policy(inputs.numbers), inputs, self.budget)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the logarithms of ``probabilities``, which are logits of the same policy."""
        return {Columns.ACTION_DIST_INPUTS: self.probabilities(batch[Columns.OBS]).clamp(min=_LEAST).log()}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return the critic's expectations of the return still to come [N], in shares of the game's span."""
        observations = batch[Columns.OBS]
        known = [observations[:, : self.features], observations[:, self.features + 2 * self.actions :]]
        values: Tensor = self.critic(torch.cat(known, dim=-1))
        return values.squeeze(-1)


class BestResponse:
    """A training run that goes on, update by update, for as long as its caller asks."""

    def __init__(self, target: FrozenPlayer, training: Training) -> None:
        """Begin with a new network. Raises UsageError for a game that networks cannot read."""
        spec = target.spec
        self._training = training
        self._span = (spec.max_return - spec.min_return) or 1.0
        self._tables = AttackTables(
            target, training.seats, training.reference, derive_seed(training.seed, "attack"), training.tables
        )
        self._learner = _learner(raw_env(spec.name), training)
        self._module: ExploiterModule = self._learner.module[DEFAULT_MODULE_ID]
        self._draws = torch.Generator().manual_seed(derive_seed(training.seed, "actions"))
        self._steps = 0

    @property
    def network(self) -> PolicyNet:
        """The policy as it stands."""
        return self._module.policy

    def update(self) -> Progress:
        """Play a batch of matches and learn from it."""
        matches = self._tables.play(self._training.batch, self._act)
        decided = [match for match in matches if match.decisions]
        self._learner.update(
            episodes=[_episode(number, match, self._span) for number, match in enumerate(decided)],
            num_epochs=self._training.epochs,
            minibatch_size=self._training.minibatch,
        )
        self._steps += sum(len(match.decisions) for match in decided)
        return Progress(self._steps, sum(match.total for match in matches) / len(matches))

    @torch.inference_mode()
    def _act(self, observations: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Draw actions [N] for observations [N, F + 2A + H]; return the policy's probabilities [N, A] too."""
        policy = self._module.probabilities(torch.from_numpy(observations))
        return torch.multinomial(policy, 1, generator=self._draws).squeeze(-1).numpy(), policy.numpy()


def _episode(number: int, match: AttackMatch, span: float) -> SingleAgentEpisode:
    """Return a match as RLlib's learner takes it, its rewards in shares of ``span``."""
    policies = [np.log(np.maximum(decision.policy, _LEAST)) for decision in match.decisions]
    seen = [decision.observation for decision in match.decisions]
    return SingleAgentEpisode(
        id_=str(number),
        observations=[*seen, np.zeros_like(seen[0])],  # nothing is seen after the end, and nothing depends on it
        actions=[decision.action for decision in match.decisions],
        rewards=[reward / span for reward in match.rewards],
        terminated=True,
        extra_model_outputs={
            Columns.ACTION_DIST_INPUTS: policies,
            Columns.ACTION_LOGP: [row[one.action] for row, one in zip(policies, match.decisions, strict=True)],
        },
        len_lookback_buffer=0,
    )


def _learner(table: raw_env, training: Training) -> Any:
    """Return RLlib's PPO learner of a new module. Its matches are whole, so nothing is discounted."""
    seat = table.possible_agents[training.seats[0]]
    observations, actions = table.observation_space(seat), table.action_space(seat)
    logging.getLogger("ray").setLevel(logging.ERROR)  # RLlib warns of its own use of what it has deprecated
    module = RLModuleSpec(
        module_class=ExploiterModule,
        observation_space=observations,
        action_space=actions,
        model_config={
            "features": features_of(table.game),
            "everyone": (features_of(table.game) - table.spec.seats) * table.spec.seats,
            "actions": table.spec.num_actions,
            "hidden": training.hidden,
            "budget": tuple(training.budget),
        },
    )
    config = PPOConfig().training(
        lr=training.learning_rate,
        gamma=1.0,
        lambda_=0.95,
        entropy_coeff=training.entropy,
        use_kl_loss=False,
        vf_clip_param=float("inf"),
        train_batch_size_per_learner=training.batch,
        grad_clip=0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(training.seed, "network"))
        return config.rl_module(rl_module_spec=module).build_learner(
            spaces={DEFAULT_MODULE_ID: (observations, actions)}
        )
