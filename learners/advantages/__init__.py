"""Credit rules: trajectories to one advantage a turn. One rule a file, pure functions.

A rule is ``rule(trajectories, state, settings) -> (advantages, state)``: ``advantages[i][k]`` belongs
to turn k of trajectory i. ``state`` is what a running baseline remembers, plain JSON data that is
saved with the run; rules without one hand it through.

A rule may have a weigher beside it, ``weigher(trajectories, state, settings) -> (weights, state)``: what each
trajectory counts in the loss, 0 for one that is left out. It goes first, and the two share the rule's state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from games.errors import unknown_name
from learners.advantages.advantage_alignment import advantage_alignment
from learners.advantages.at_grpo import at_grpo
from learners.advantages.comas import comas
from learners.advantages.cory import cory
from learners.advantages.flow_grpo import flow_grpo
from learners.advantages.gae_turn import gae_turn
from learners.advantages.gigpo import gigpo
from learners.advantages.grpo import dr_grpo, grpo
from learners.advantages.m_grpo import align, m_grpo
from learners.advantages.malt import malt, once
from learners.advantages.mars import mars
from learners.advantages.matpo import matpo
from learners.advantages.rae import rae
from learners.advantages.regret import regret
from learners.advantages.reinforce import reinforce
from learners.advantages.rloo import rloo
from learners.trajectories import Trajectory

State = dict[str, Any]
Advantages = list[list[float]]


class Credit(NamedTuple):
    """The numbers a rule may use; each rule's docstring says which."""

    gamma: float = 1.0
    decay: float = 0.95
    fold: str = "batch"
    baseline: str = "role"
    level: str = "turn"
    trace_decay: float = 0.95
    step_weight: float = 1.0
    step_gamma: float = 0.95
    step_spread: bool = False
    alignment: float = 1.0
    regret_focus: float = 0.0
    align: str = "weight"
    calibration: int = 10


Rule = Callable[[Sequence[Trajectory], State, Any], tuple[Advantages, State]]
Weigher = Callable[[Sequence[Trajectory], State, Any], tuple[list[float], State]]
RULES: dict[str, Rule] = {
    "reinforce": reinforce,
    "rae": rae,
    "mars": mars,
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "m_grpo": m_grpo,
    "matpo": matpo,
    "malt": malt,
    "cory": cory,
    "comas": comas,
    "gigpo": gigpo,
    "at_grpo": at_grpo,
    "gae_turn": gae_turn,
    "flow_grpo": flow_grpo,
    "advantage_alignment": advantage_alignment,
    "regret": regret,
}
WEIGHERS: dict[str, Weigher] = {"m_grpo": align, "malt": once}  # by the rule that they belong to


def rule_named(name: str) -> Rule:
    """Return a credit rule by name. Raises UsageError with the nearest names."""
    if name not in RULES:
        raise unknown_name("advantage rule", name, RULES, "Set credit.rule.")
    return RULES[name]


def weigh_trajectories(
    trajectories: Sequence[Trajectory], rule_for: Callable[[str, str], str], state: State, settings: Credit
) -> tuple[list[Trajectory], State]:
    """Return the trajectories with the weights that the rules of their (game, role) give them, and the new state."""
    weighed, after = list(trajectories), dict(state)
    for rule, own in _by_rule(trajectories, rule_for).items():
        if rule in WEIGHERS:
            weights, after[rule] = WEIGHERS[rule]([trajectories[i] for i in own], state.get(rule, {}), settings)
            for place, weight in zip(own, weights, strict=True):
                weighed[place] = trajectories[place]._replace(weight=weight)
    return weighed, after


def compute_advantages(
    trajectories: Sequence[Trajectory], rule_for: Callable[[str, str], str], state: State, settings: Credit
) -> tuple[Advantages, State]:
    """Return one advantage a turn, each trajectory credited by the rule of its (game, role), and the new state.

    A rule sees its own trajectories, in their order, and its own part of the state, ``state[rule]``.
    Raises ValueError for a rule that does not give every turn one number.
    """
    advantages: Advantages = [[] for _ in trajectories]
    after = dict(state)
    for rule, own in _by_rule(trajectories, rule_for).items():
        given, after[rule] = rule_named(rule)([trajectories[i] for i in own], state.get(rule, {}), settings)
        for place, advantages_K in zip(own, given, strict=True):
            one = trajectories[place]
            if len(advantages_K) != len(one.turns):
                raise ValueError(
                    f"Rule {rule!r} gave {len(advantages_K)} advantages for the {len(one.turns)} turns of {one.role} "
                    f"in match {one.match}; it must give one for each."
                )
            advantages[place] = advantages_K
    return advantages, after


def _by_rule(trajectories: Sequence[Trajectory], rule_for: Callable[[str, str], str]) -> dict[str, list[int]]:
    """Return the places of each rule's trajectories."""
    places: dict[str, list[int]] = {}
    for place, trajectory in enumerate(trajectories):
        places.setdefault(rule_for(trajectory.game, trajectory.role), []).append(place)
    return places
