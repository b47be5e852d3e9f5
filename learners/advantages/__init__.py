"""Credit rules: trajectories to one advantage a turn. One rule a file, pure functions.

A rule is ``rule(trajectories, state, settings) -> (advantages, state)``: ``advantages[i][k]`` belongs
to turn k of trajectory i. ``state`` is what a running baseline remembers, plain JSON data that is
saved with the run; rules without one hand it through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from games.errors import unknown_name
from learners.advantages.rae import rae
from learners.advantages.reinforce import reinforce
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


Rule = Callable[[Sequence[Trajectory], State, Any], tuple[Advantages, State]]
RULES: dict[str, Rule] = {
    "reinforce": reinforce,
    "rae": rae,
}


def rule_named(name: str) -> Rule:
    """Return a credit rule by name. Raises UsageError with the nearest names."""
    if name not in RULES:
        raise unknown_name("advantage rule", name, RULES, "Set credit.rule.")
    return RULES[name]
