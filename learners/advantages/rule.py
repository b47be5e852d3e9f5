"""The type of a credit rule: a pure function, its settings, the data it needs, and a check of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import Field

from games.common.registry import Entry
from games.common.section import Section, Share
from games.spec import GameSpec
from learners.trajectories import Evidence, Trajectory
from roles.role import Role

State = dict[str, Any]  # a rule's statistics from earlier iterations: plain JSON data, saved with the run
Advantages = list[list[float]]  # one number for each turn of each trajectory


class Need(StrEnum):
    """Data that a rule requires: how matches are played, or evidence, by the names of the sources that rules share.

    A rule may need any other source of evidence (``league.register_evidence``) by its name.
    """

    GROUPS = "groups"  # several matches of each start
    TREE = "tree"  # whole trees of replies
    PREFERENCES = "preferences"  # which of two matches of a start a judge prefers
    VALUES = "values"  # an estimate of each turn's value
    CONTRIBUTIONS = "contributions"  # an estimate of what each turn added
    COUNTERFACTUALS = "counterfactuals"  # the payoffs of the actions that were not played


OF_PLAY = frozenset({Need.GROUPS, Need.TREE, Need.PREFERENCES})  # needs that are not evidence


class CreditFacts(NamedTuple):
    """What a rule's check may depend on."""

    game: GameSpec
    roles: tuple[Role, ...]  # by seat
    credited: tuple[Role, ...]  # the roles that use the rule
    group_size: int  # matches of one start
    tree: int | None  # sibling replies at every turn; None: no trees


class Credited(NamedTuple):
    """The credit that a rule assigns to its trajectories."""

    advantages: Advantages
    weights: list[float]  # of each trajectory in the loss: w counts as w equal ones, 0 leaves it out  # [N]
    state: State


CreditFunction = Callable[[Sequence[Trajectory], Sequence[Evidence], State, Any], Credited]


@dataclass(frozen=True, slots=True)
class CreditRule(Entry[CreditFunction]):
    """A rule. ``make`` gets ``evidence[i]`` of trajectory i, and changes none of its arguments.

    ``needs`` are of ``Need``, or names of sources of evidence; ``check`` gets ``CreditFacts``: it raises UsageError for
    a game that cannot be credited.
    """

    forget: Callable[[State, str], State] | None = None  # the state without what it holds about a policy; None: nothing
    metrics: Callable[[Sequence[Trajectory], Credited], Mapping[str, float]] | None = None  # logged as credit/RULE/NAME
    rewards: Callable[[Any], Collection[str]] | None = None  # the rewards that it names; None: none
    across_roles: bool = False  # a role's credit depends on other roles' trajectories, so all have equal settings


class Discounted(Section):
    """The settings of a rule that discounts."""

    gamma: Share = Field(1.0, description="discount of later turn rewards within a match")


def unweighted(advantages: Advantages, state: State) -> Credited:
    """Return credit in which every trajectory has weight 1."""
    return Credited(advantages, [1.0] * len(advantages), state)
