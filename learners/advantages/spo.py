"""Self-play preference optimisation: a match's value is the share of its group that a judge ranks below it.

SPO (Swamy et al. 2024, arXiv 2401.04056): of several matches of one start, with P(a > b) the probability that the judge
prefers a to b,

    w_i = mean over the others j of P(i > j),   A_i = 2 w_i - 1

which is between -1 and 1, and 0 on average over a group. The policy plays against itself in a symmetric zero-sum game
whose payoff is 2 P - 1, so its time average is the mixture that no other is preferred to (the minimax winner), even
where the judge is not transitive. A score fitted to the judge's preferences (Bradley and Terry 1952) has one best
match, which something then always beats. The game's return is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from games.common.section import Section
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.groups import groups_of
from learners.trajectories import Evidence, Trajectory


def spo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return 2 w - 1 for every turn.

    Raises UsageError for groups of one or of different sizes, and ValueError for a trajectory that no judge compared.
    """
    groups_of("spo", trajectories)
    advantages = []
    for trajectory in trajectories:
        if trajectory.preferred is None:
            raise ValueError(
                f"Match {trajectory.match} of {trajectory.game} was not compared by a judge (role {trajectory.role}); "
                "every match must be compared with the others of its start."
            )
        advantages.append([2.0 * trajectory.preferred - 1.0] * len(trajectory.turns))
    return unweighted(advantages, state)


RULE = CreditRule(spo, Section, needs={Need.GROUPS, Need.PREFERENCES})
