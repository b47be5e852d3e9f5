"""The team's lead over its altered line-ups, and the verdict on each role that follows.

The difference is paired by deal, and a deal is one observation. All intervals of a table hold together with a
probability of 95 %: each of m misses with 0.05 / m (Bonferroni). A verdict is read off the intervals of the team's loss
without a role: the role is vital if a whole interval lies above the margin, idle if all its intervals lie within the
margin, and harmful if one lies wholly below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from games.common.errors import UsageError
from games.spec import GameSpec
from league.lab.comparisons.team_lineups import LineUp, Place, PlayedLineUp, Team
from league.theory.statistics import Estimate, clustered_mean

MARGIN = 0.05  # of the range of the game's returns, by default
ERROR = 0.05  # the probability that any interval of a table misses


class TeamLead(StrEnum):
    """How the team does compared with a line-up."""

    BETTER = "better"
    LEVEL = "level"  # within the margin
    WORSE = "worse"
    OPEN = "not decided"


class RoleVerdict(StrEnum):
    """What a role is to its team."""

    VITAL = "vital"
    IDLE = "idle"
    HARMFUL = "harmful"
    OPEN = "not decided"


class TeamComparison(NamedTuple):
    """A line-up compared with the team."""

    line_up: LineUp
    returns: Estimate  # in the game's units, with an interval of 95 % of its own
    loss: Estimate  # the team's return less the line-up's; the intervals of all comparisons hold together
    standing: TeamLead
    tokens: float | None  # in its replies, a match


class TeamTable(NamedTuple):
    """The team, and all line-ups that it was compared with."""

    returns: Estimate  # the team's, with an interval of 95 %
    tokens: float | None
    margin: float  # in the game's units
    comparisons: tuple[TeamComparison, ...]

    def replacements(self, position: Place) -> list[TeamComparison]:
        """Return the comparisons in which only one role was replaced."""
        return [comparison for comparison in self.comparisons if comparison.line_up.role == position]


def check_margin(margin: float) -> None:
    """Raise UsageError for a margin that is not a share of a range."""
    if not 0.0 < margin < 1.0:
        raise UsageError(
            f"--margin {margin:g}: give a share of the range of the game's returns, above 0 and below 1, such as 0.05."
        )


def compare_line_ups(played: Sequence[PlayedLineUp], spec: GameSpec, margin: float = MARGIN) -> TeamTable:
    """Return the table of line-ups that played the same deals, the team first.

    ``margin`` is the difference that does not matter, as a share of the range of the game's returns.
    """
    team, *others = played
    span = spec.max_return - spec.min_return
    comparisons = []
    for lineup in others:
        losses = [ours - theirs for ours, theirs in zip(team.returns, lineup.returns, strict=True)]
        loss = clustered_mean(losses, range(len(losses)), (-span, span), ERROR / len(others))
        standing = _standing(loss, margin * span)
        comparisons.append(TeamComparison(lineup.line_up, _mean(lineup, spec), loss, standing, lineup.tokens))
    return TeamTable(_mean(team, spec), team.tokens, margin * span, tuple(comparisons))


def verdicts_by_role(table: TeamTable, team: Team) -> dict[Place, RoleVerdict]:
    """Return the verdict on every role that was replaced."""
    by_position = {
        position: [comparison.standing for comparison in table.replacements(position)] for position in team.roles
    }
    return {position: _verdict(standings) for position, standings in by_position.items() if standings}


def _verdict(standings: Sequence[TeamLead]) -> RoleVerdict:
    if TeamLead.BETTER in standings:
        return RoleVerdict.VITAL
    if set(standings) == {TeamLead.LEVEL}:
        return RoleVerdict.IDLE
    return RoleVerdict.HARMFUL if TeamLead.WORSE in standings else RoleVerdict.OPEN


def _standing(loss: Estimate, margin: float) -> TeamLead:
    if loss.low is None or loss.high is None:
        return TeamLead.OPEN
    if loss.low > margin:
        return TeamLead.BETTER
    if loss.high < -margin:
        return TeamLead.WORSE
    return TeamLead.LEVEL if -margin < loss.low and loss.high < margin else TeamLead.OPEN


def _mean(played: PlayedLineUp, spec: GameSpec) -> Estimate:
    return clustered_mean(played.returns, range(len(played.returns)), (spec.min_return, spec.max_return))
