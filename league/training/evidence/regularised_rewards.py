"""Regularised Nash dynamics (R-NaD; Perolat et al. 2021, arXiv 2002.08456; DeepNash, arXiv 2206.15378): the rewards.

A seat that replies a pays for leaving the regularisation policy, here the magnet, and the other seats receive what it
pays, so that a zero-sum game stays zero-sum:

    r_i <- r_i - eta log(pi(a) / magnet(a)) for a reply of seat i,   r_j <- r_j + eta log(...) / (seats - 1) for others

The transformed game has one equilibrium, which play approaches; then the magnet moves there, and the process
repeats. A divergence in the loss acts at each position separately; rewards also charge a seat for the positions that it
leads to. Where returns are not zero-sum, each seat pays for itself and no seat receives anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

from games.registry import make_game
from games.spec import Utility
from league.config import RunConfig
from league.config.schedules import reward_weight_at
from league.training.evidence.counterfactuals import prompt_key, reply_probabilities
from learners.trajectories import Trajectory
from learners.update.policy import Policy


def regularise(
    config: RunConfig, policies: Mapping[str, Policy], trajectories: Sequence[Trajectory], iteration: int
) -> Sequence[Trajectory]:
    """Return trajectories with transformed rewards, where ``objective.magnet_rule`` asks for them.

    ``policies`` have the magnets that the iteration's matches are compared with.
    """
    weight = reward_weight_at(config, iteration)
    if not weight:
        return trajectories
    ratios = log_ratios(policies, trajectories, config.objective.magnet_uniform)
    in_match: dict[int, float] = {}
    for trajectory, ratios_K in zip(trajectories, ratios, strict=True):
        in_match[trajectory.match] = in_match.get(trajectory.match, 0.0) + sum(ratios_K)
    return [
        _transformed(trajectory, ratios_K, in_match[trajectory.match] - sum(ratios_K), weight)
        for trajectory, ratios_K in zip(trajectories, ratios, strict=True)
    ]


def log_ratios(policies: Mapping[str, Policy], trajectories: Sequence[Trajectory], uniform: float) -> list[list[float]]:
    """Return log(pi / magnet) of each turn's reply (nats), the magnet mixed with this share of the uniform policy.

    ``[i][k]`` belongs to turn k of trajectory i; 0 for a policy without a magnet.
    """
    ratios = [[0.0] * len(trajectory.turns) for trajectory in trajectories]
    for name, policy in policies.items():
        indices = [i for i, trajectory in enumerate(trajectories) if trajectory.policy == name]
        if policy.magnet is None:
            continue
        probabilities = reply_probabilities(
            policy.magnet, [prompt_key(turn) for i in indices for turn in trajectories[i].turns]
        )
        for i in indices:
            for k, turn in enumerate(trajectories[i].turns):
                key = prompt_key(turn)
                assert turn.trace is not None, "prompt_key refuses a turn without a trace"
                magnet = probabilities[key][key.legal.index(turn.reply)]
                mixed = (1 - uniform) * magnet + uniform / len(key.legal)
                ratios[i][k] = sum(turn.trace.logprobs) - log(max(mixed, 1e-30))
    return ratios


def _transformed(trajectory: Trajectory, ratios_K: Sequence[float], of_others: float, weight: float) -> Trajectory:
    """Return a trajectory that pays for its own log-ratios and receives the others' sum in its last turn."""
    spec = make_game(trajectory.game).spec
    received = weight * of_others / (spec.seats - 1) if spec.utility is Utility.ZERO_SUM else 0.0
    rewards = [reward - weight * ratio for reward, ratio in zip(trajectory.rewards, ratios_K, strict=True)]
    if rewards:
        rewards[-1] += received
    match_return = trajectory.match_return - weight * sum(ratios_K) + received
    return trajectory._replace(rewards=tuple(rewards), match_return=match_return)
