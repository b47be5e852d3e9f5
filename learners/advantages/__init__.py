"""Credit rules: trajectories to one advantage a turn. One rule a file, pure functions.

May import the files at the root of learners.

A rule is ``rule(trajectories, evidence, state, settings) -> (advantages, weights, state)``: ``advantages[i][k]``
belongs to turn k of trajectory i, and ``weights[i]`` is the trajectory's weight in the loss, 0 to leave it out.
``state`` holds running statistics, plain JSON data that is saved with the run; rules without any return it unchanged.
``settings`` is the rule's table of the configuration. What a rule remembers about a policy is forgotten (``forget``)
when that policy's weights are reset. ``learners.advantages.rule`` has the types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from games.common.registry import Registry
from games.common.section import Section
from learners.advantages.advantage_alignment import RULE as ADVANTAGE_ALIGNMENT
from learners.advantages.at_grpo import RULE as AT_GRPO
from learners.advantages.comas import RULE as COMAS
from learners.advantages.contribution import RULE as CONTRIBUTION
from learners.advantages.cory import RULE as CORY
from learners.advantages.dapo import RULE as DAPO
from learners.advantages.dr_grpo import RULE as DR_GRPO
from learners.advantages.flow_grpo import RULE as FLOW_GRPO
from learners.advantages.gae_turn import RULE as GAE_TURN
from learners.advantages.gdpo import RULE as GDPO
from learners.advantages.gigpo import RULE as GIGPO
from learners.advantages.grpo import RULE as GRPO
from learners.advantages.m_grpo import RULE as M_GRPO
from learners.advantages.malt import RULE as MALT
from learners.advantages.mars import RULE as MARS
from learners.advantages.matpo import RULE as MATPO
from learners.advantages.mt_grpo import RULE as MT_GRPO
from learners.advantages.rae import RULE as RAE
from learners.advantages.regret import RULE as REGRET
from learners.advantages.reinforce import RULE as REINFORCE
from learners.advantages.rloo import RULE as RLOO
from learners.advantages.rule import Advantages, Credited, CreditRule, State
from learners.advantages.spo import RULE as SPO
from learners.trajectories import Evidence, Trajectory

DEFAULT_RULE = "rae"
OWN = "@"  # between a rule and a role that has its own settings
RULES = Registry(
    "credit",
    "credit rule",
    CreditRule,
    "credit.rule",
    {
        "reinforce": REINFORCE,
        "rae": RAE,
        "mars": MARS,
        "grpo": GRPO,
        "dr_grpo": DR_GRPO,
        "dapo": DAPO,
        "gdpo": GDPO,
        "rloo": RLOO,
        "m_grpo": M_GRPO,
        "matpo": MATPO,
        "malt": MALT,
        "cory": CORY,
        "comas": COMAS,
        "gigpo": GIGPO,
        "at_grpo": AT_GRPO,
        "mt_grpo": MT_GRPO,
        "gae_turn": GAE_TURN,
        "contribution": CONTRIBUTION,
        "flow_grpo": FLOW_GRPO,
        "advantage_alignment": ADVANTAGE_ALIGNMENT,
        "regret": REGRET,
        "spo": SPO,
    },
    reserved=("rule", "rules", "settings", "scale_returns"),
)
register = RULES.register


def assign_credit(
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    state: State,
    rule_for: Callable[[str, str], str],
    settings_of: Callable[[str], Section],
    settings_for: Callable[[str, str], Section | None] = lambda _game, _role: None,
) -> Credited:
    """Return the credit that the rules of each (game, role) assign; the state is by rule.

    A rule gets the trajectories of its roles, in their order, its settings and its part of the state,
    ``state[rule]``. A role with its own settings (``settings_for``) is credited separately, with the state of
    ``rule@game/role``. Raises ValueError for a rule that does not return one number for every turn.
    """
    advantages: Advantages = [[] for _ in trajectories]
    weights, after = [1.0] * len(trajectories), dict(state)
    for key, indices in _by_rule(trajectories, rule_for, settings_for).items():
        rule_trajectories, rule_evidence = [trajectories[i] for i in indices], [evidence[i] for i in indices]
        name, first = key.partition(OWN)[0], rule_trajectories[0]
        rule = RULES[name]
        settings = settings_for(first.game, first.role) or settings_of(name)
        credited = rule.make(rule_trajectories, rule_evidence, state.get(key, {}), settings)
        after[key] = credited.state
        for i, advantages_K, weight in zip(indices, credited.advantages, credited.weights, strict=True):
            _check_turns(name, trajectories[i], advantages_K)
            advantages[i], weights[i] = advantages_K, weight
    return Credited(advantages, weights, after)


def rule_metrics(
    trajectories: Sequence[Trajectory],
    credited: Credited,
    rule_for: Callable[[str, str], str],
    settings_for: Callable[[str, str], Section | None] = lambda _game, _role: None,
) -> dict[str, float]:
    """Return the rules' metrics of the credit that ``assign_credit`` returned, as "credit/RULE/NAME"."""
    metrics: dict[str, float] = {}
    for key, indices in _by_rule(trajectories, rule_for, settings_for).items():
        report = RULES[key.partition(OWN)[0]].metrics
        if report is not None:
            advantages, weights = [credited.advantages[i] for i in indices], [credited.weights[i] for i in indices]
            rule_credit = Credited(advantages, weights, credited.state.get(key, {}))
            reported = report([trajectories[i] for i in indices], rule_credit)
            metrics |= {f"credit/{key}/{name}": value for name, value in reported.items()}
    return metrics


def forget_policy(state: State, policy: str) -> State:
    """Return the rules' state without what they remember about a policy, whose weights are reset."""
    forgetting = {name: rule.forget for name, rule in RULES.loaded().items() if rule.forget is not None}
    return {
        key: forgetting[name](part, policy) if (name := key.partition(OWN)[0]) in forgetting else part
        for key, part in state.items()
    }


def _by_rule(
    trajectories: Sequence[Trajectory],
    rule_for: Callable[[str, str], str],
    settings_for: Callable[[str, str], Section | None],
) -> dict[str, list[int]]:
    """Return the indices of each rule's trajectories; a role with its own settings has a separate key."""
    by_role: dict[tuple[str, str], list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        by_role.setdefault((trajectory.game, trajectory.role), []).append(index)
    indices: dict[str, list[int]] = {}
    for (game, role), members in by_role.items():
        suffix = "" if settings_for(game, role) is None else f"{OWN}{game}/{role}"
        indices.setdefault(rule_for(game, role) + suffix, []).extend(members)
    return {key: sorted(members) for key, members in indices.items()}


def _check_turns(rule: str, trajectory: Trajectory, advantages_K: Sequence[float]) -> None:
    if len(advantages_K) != len(trajectory.turns):
        raise ValueError(
            f"Rule {rule!r} returned {len(advantages_K)} advantages for the {len(trajectory.turns)} turns of "
            f"{trajectory.role} in match {trajectory.match}; it must return one for each turn."
        )
