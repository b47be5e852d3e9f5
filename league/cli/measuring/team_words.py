"""What ``league team`` says of roles and line-ups, in a sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from games.aliases import short_name
from games.spec import GameSpec
from league.cli.formatting import format_number
from league.lab.comparisons.team_lineups import LineUpKind
from league.lab.comparisons.team_of_run import LonePlayer
from league.lab.comparisons.team_verdicts import RoleVerdict, TeamComparison, TeamLead
from league.theory.statistics import Estimate


def role_sentence(role: str, verdict: RoleVerdict, replacements: Sequence[TeamComparison], margin: float) -> str:
    """Return the verdict on a role, with the replacement that shows it most clearly, and those that do not."""
    if verdict is RoleVerdict.IDLE:
        names = " and ".join(_who(one) for one in replacements)
        return f"{role} is idle: with {names} in its place the team earns the same, within {margin:.3g}."
    if verdict is RoleVerdict.OPEN:
        widest = max(replacements, key=lambda one: (one.loss.high or 0.0) - (one.loss.low or 0.0))
        return (
            f"{role} is not decided: the team earns {_more(widest.loss)} than with {_who(widest)} in its place; more "
            "--matches would tell."
        )
    sign = 1.0 if verdict is RoleVerdict.VITAL else -1.0
    shown = max(replacements, key=lambda one: sign * one.loss.mean)
    words = f"{role} is {verdict}: the team earns {_more(shown.loss)} than with {_who(shown)} in its place"
    level = [_who(one) for one in replacements if one.standing is TeamLead.LEVEL]
    undecided = [_who(one) for one in replacements if one.standing is TeamLead.OPEN]
    words += f"; with {' and '.join(level)} it earns the same" if level else ""
    return words + (f"; with {' and '.join(undecided)} it is not decided." if undecided else ".")


def line_up_sentence(one: TeamComparison, alone: LonePlayer | None, team_tokens: float | None) -> str:
    """Return what the comparison with a line-up says of the team."""
    lead = f"the team earns {_more(one.loss)}"
    if one.line_up.kind is LineUpKind.ALONE:
        verdict = {
            TeamLead.BETTER: "The team earns its keep",
            TeamLead.LEVEL: "One alone does as well as the team",
            TeamLead.WORSE: "One alone does better than the team",
            TeamLead.OPEN: "It is not decided whether the team earns its keep",
        }[one.standing]
        return f"{verdict}: {lead} than {_lone(alone, team_tokens)}."
    told = {
        TeamLead.BETTER: "the team does worse for it",
        TeamLead.LEVEL: "it makes no difference",
        TeamLead.WORSE: "the team does better for it",
        TeamLead.OPEN: "not decided",
    }[one.standing]
    return f"{one.line_up.words}: {told}; as it is {lead}."


def without_alone(spec: GameSpec) -> str:
    """Return why the team was not compared with one player alone."""
    if not spec.alone:
        return f"{short_name(spec.name)} names no game in which one player does the whole team's work."
    return (
        f"One player alone was not asked: train one in {short_name(spec.alone)} on as many tokens, and name it with "
        "--alone."
    )


def _lone(alone: LonePlayer | None, team_tokens: float | None) -> str:
    name = alone.player if alone else "one alone"
    if alone is None or alone.trained_tokens is None or team_tokens is None:
        return name
    return f"{name}, trained on {alone.trained_tokens:,.0f} tokens (the team on {team_tokens:,.0f})"


def _who(one: TeamComparison) -> str:
    """Return who takes the role's place."""
    place = one.line_up.role
    if one.line_up.kind is LineUpKind.UNTRAINED or place is None:
        return "its untrained self"
    return one.line_up.players[place]


def _more(lead: Estimate) -> str:
    """Return how much more or less the team earns, with the interval."""
    amount = f"{format_number(abs(lead.mean))} {'more' if lead.mean >= 0.0 else 'less'}"
    if lead.low is None:
        return f"{amount} (no interval)"
    return f"{amount} (between {format_number(lead.low, True)} and {format_number(lead.high, True)})"
