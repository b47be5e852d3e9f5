"""``league lab team``: does a run's team earn its keep, and do its roles?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import short_name
from league.cli.formatting import (
    estimate_to_json,
    format_interval,
    format_number,
    match_progress,
    plain_table,
    print_usage,
)
from league.cli.parser import PLAYERS, Parser, add_json_option, add_player_options, add_seed_option, whole_number

if TYPE_CHECKING:
    from rich.console import Console

    from games.spec import GameSpec
    from league.lab.comparisons.team_lineups import Place, Team
    from league.lab.comparisons.team_of_run import LonePlayer
    from league.lab.comparisons.team_verdicts import RoleVerdict, TeamComparison, TeamTable
    from league.theory.statistics import Estimate

EXAMPLES = (
    "runs/team",
    "runs/relay --stand-in random scripted:poor --matches 4000 --margin 0.02",
    "runs/team --alone runs/alone --apart planner=runs/planner worker=runs/worker --json",
)
NOTES = PLAYERS
MOST_DEALS = 1_000_000  # of a team's line-up, whose returns are held in memory


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("run", metavar="RUN", help="a run with a game whose roles work together")
    parser.add_argument("--game", metavar="GAME", help="one of the run's games, if teams play several")
    parser.add_argument(
        "--stand-in",
        nargs="+",
        default=["random"],
        metavar="PLAYER",
        help="who replaces each role, besides its untrained self (default: random)",
    )
    parser.add_argument(
        "--alone",
        metavar="PLAYER",
        help="who does all the work alone, where there is a game for that; of a run, the snapshot after as many tokens",
    )
    parser.add_argument(
        "--apart",
        nargs="+",
        default=[],
        metavar="[ROLE=]PLAYER",
        help="players trained apart from the team: one for this role, or all of them together",
    )
    deals = whole_number(1, MOST_DEALS)
    parser.add_argument(
        "--matches", type=deals, default=2000, metavar="N", help="matches of each line-up (default: 2000)"
    )
    parser.add_argument(
        "--margin",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="share of the range of returns below which a difference does not matter (default: 0.05)",
    )
    add_seed_option(parser)
    add_player_options(parser)
    add_json_option(parser)


class TeamReport(NamedTuple):
    """A team compared with its line-ups."""

    run: str
    team: Team
    deals: int
    seed: int
    trained_tokens: float | None  # generated in the team's training
    alone: LonePlayer | None
    table: TeamTable
    verdicts: dict[Place, RoleVerdict]
    usage: dict[str, Any]

    @property
    def spec(self) -> GameSpec:
        """The facts about the game."""
        return self.team.spec


def run(arguments: argparse.Namespace) -> TeamReport:
    """Play every line-up on the same deals."""
    from league.lab.comparisons.pairings import try_out
    from league.lab.comparisons.team_lineups import line_ups, play_line_up, seated
    from league.lab.comparisons.team_of_run import lone_player, team_game, team_of, team_tokens, trained_apart
    from league.lab.comparisons.team_verdicts import check_margin, compare_line_ups, verdicts_by_role
    from league.population.players.engines import Engines
    from league.population.players.settings import PlayerSettings
    from league.population.storage.run_dir import open_run

    check_margin(arguments.margin)
    trained = open_run(arguments.run)
    team = team_of(trained, team_game(trained, arguments.game))
    tokens = team_tokens(trained, team)
    alone = lone_player(arguments.alone, team, tokens) if arguments.alone else None
    apart = trained_apart(arguments.apart, team)
    planned = line_ups(team, list(dict.fromkeys(arguments.stand_in)), apart, alone.player if alone else "")
    with Engines(PlayerSettings.of(arguments)) as engines:
        for line_up in planned:
            try_out(seated(line_up, team, engines))
        engines.check_settings([str(trained.path), *arguments.stand_in])
        with match_progress() as progress:
            task = progress.add_task("playing line-ups", total=len(planned) * arguments.matches)
            played = [
                play_line_up(
                    line_up, team, arguments.matches, arguments.seed, engines, lambda _: progress.advance(task)
                )
                for line_up in planned
            ]
        table = compare_line_ups(played, team.spec, arguments.margin)
        verdicts, usage = verdicts_by_role(table, team), engines.usage()
    return TeamReport(
        str(trained.path), team, arguments.matches, arguments.seed, tokens, alone, table, verdicts, dict(usage)
    )


def to_json(report: TeamReport) -> dict[str, Any]:
    """Return the report as JSON data. Values that were not computed are null."""
    from league.lab.comparisons.team_verdicts import ERROR

    table, team = report.table, report.team
    return {
        "run": report.run,
        "game": report.spec.name,
        "deals": report.deals,
        "seed": report.seed,
        "margin": table.margin,
        "confidence": 1.0 - ERROR,  # of all intervals of losses together
        "team": {
            **estimate_to_json("return", table.returns),
            "tokens": table.tokens,
            "trained_tokens": report.trained_tokens,
            "players": _names(team, team.players),
        },
        "comparisons": [
            {
                "kind": str(comparison.line_up.kind),
                "line_up": comparison.line_up.words,
                "role": None if comparison.line_up.role is None else team.roles[comparison.line_up.role],
                "players": _names(team, comparison.line_up.players),
                **estimate_to_json("return", comparison.returns),
                **estimate_to_json("loss", comparison.loss),
                "team_is": str(comparison.standing),
                "tokens": comparison.tokens,
            }
            for comparison in table.comparisons
        ],
        "roles": {team.roles[position]: str(verdict) for position, verdict in report.verdicts.items()},
        "alone": None if report.alone is None else report.alone._asdict(),
        "sentences": _sentences(report),
    }


def _names(team: Team, players: Mapping[Place, str]) -> dict[str, str]:
    """Return players by role; in a game outside the team, by the name of their role there."""
    from games.registry import make_game

    return {team.roles.get(position) or make_game(position[0]).spec.alias: name for position, name in players.items()}


def _sentences(report: TeamReport) -> list[str]:
    """Return one sentence on each role, and one on each other comparison."""
    from league.lab.comparisons.team_lineups import LineUpKind

    table, team = report.table, report.team
    sentences = [
        role_sentence(team.roles[position], verdict, table.replacements(position), table.margin)
        for position, verdict in report.verdicts.items()
    ]
    others = [comparison for comparison in table.comparisons if comparison.line_up.role is None]
    sentences += [line_up_sentence(comparison, report.alone, report.trained_tokens) for comparison in others]
    has_alone = any(comparison.line_up.kind is LineUpKind.ALONE for comparison in table.comparisons)
    return sentences if has_alone else [*sentences, without_alone(team.spec)]


def print_report(report: TeamReport, console: Console) -> None:
    """Print the table and the sentences."""
    table = report.table
    console.print(f"{report.run} in {report.spec.alias}: does the team earn its keep?", style="bold", markup=False)
    shown = plain_table("line-up", "lead", "from", "to", "team is", "tokens")
    for comparison in table.comparisons:
        lead = [format_number(bound, True) for bound in comparison.loss]
        shown.add_row(comparison.line_up.words, *lead, str(comparison.standing), _format_tokens(comparison.tokens))
    tokens = "" if table.tokens is None else f", with {_format_tokens(table.tokens)} tokens of replies a match"
    console.print(f"The team as it is: mean return {format_interval(table.returns)}{tokens}.")
    console.print(f"{report.deals} deals, each played once by every line-up (seed {report.seed}).")
    console.print(
        f"All intervals of its leads hold jointly with 95% confidence; leads within {table.margin:.3g} do not matter.\n"
    )
    console.print(shown)
    console.print()
    for sentence in _sentences(report):
        console.print(sentence, markup=False, highlight=False)
    print_usage(report.usage, console)


def _format_tokens(tokens: float | None) -> str:
    return "–" if tokens is None else f"{tokens:.1f}"


def role_sentence(role: str, verdict: RoleVerdict, replacements: Sequence[TeamComparison], margin: float) -> str:
    """Return the verdict on a role, with the replacement that shows it most clearly, and replacements that do not."""
    from league.lab.comparisons.team_verdicts import RoleVerdict, TeamLead

    if verdict is RoleVerdict.IDLE:
        names = " and ".join(_who(comparison) for comparison in replacements)
        return f"{role} is idle: with {names} in its place the team earns the same, within {margin:.3g}."
    if verdict is RoleVerdict.OPEN:
        widest = max(replacements, key=lambda comparison: (comparison.loss.high or 0.0) - (comparison.loss.low or 0.0))
        return (
            f"{role} is undecided: the team earns {_more(widest.loss)} than with {_who(widest)} in its place; more "
            "--matches would decide."
        )
    sign = 1.0 if verdict is RoleVerdict.VITAL else -1.0
    shown = max(replacements, key=lambda comparison: sign * comparison.loss.mean)
    words = f"{role} is {verdict}: the team earns {_more(shown.loss)} than with {_who(shown)} in its place"
    level = [_who(comparison) for comparison in replacements if comparison.standing is TeamLead.LEVEL]
    undecided = [_who(comparison) for comparison in replacements if comparison.standing is TeamLead.OPEN]
    words += f"; with {' and '.join(level)} it earns the same" if level else ""
    return words + (f"; with {' and '.join(undecided)} it is undecided." if undecided else ".")


def line_up_sentence(comparison: TeamComparison, alone: LonePlayer | None, team_tokens: float | None) -> str:
    """Return a sentence on the team from the comparison with a line-up."""
    from league.lab.comparisons.team_lineups import LineUpKind
    from league.lab.comparisons.team_verdicts import TeamLead

    lead = f"the team earns {_more(comparison.loss)}"
    if comparison.line_up.kind is LineUpKind.ALONE:
        verdict = {
            TeamLead.BETTER: "The team earns its keep",
            TeamLead.LEVEL: "One alone does as well as the team",
            TeamLead.WORSE: "One alone does better than the team",
            TeamLead.OPEN: "It is undecided whether the team earns its keep",
        }[comparison.standing]
        return f"{verdict}: {lead} than {_lone(alone, team_tokens)}."
    words = {
        TeamLead.BETTER: "the team does worse",
        TeamLead.LEVEL: "it makes no difference",
        TeamLead.WORSE: "the team does better",
        TeamLead.OPEN: "not decided",
    }[comparison.standing]
    return f"{comparison.line_up.words}: {words}; as it is {lead}."


def without_alone(spec: GameSpec) -> str:
    """Return why the team was not compared with one player alone."""
    if not spec.alone:
        return f"{short_name(spec.name)} names no game in which one player does the whole team's work."
    return (
        f"No single player was measured: train one in {short_name(spec.alone)} on as many tokens, and name it with "
        "--alone."
    )


def _lone(alone: LonePlayer | None, team_tokens: float | None) -> str:
    name = alone.player if alone else "one alone"
    if alone is None or alone.trained_tokens is None or team_tokens is None:
        return name
    return f"{name}, trained on {alone.trained_tokens:,.0f} tokens (the team on {team_tokens:,.0f})"


def _who(comparison: TeamComparison) -> str:
    """Return who takes the role's place."""
    from league.lab.comparisons.team_lineups import LineUpKind

    position = comparison.line_up.role
    if comparison.line_up.kind is LineUpKind.UNTRAINED or position is None:
        return "its untrained self"
    return comparison.line_up.players[position]


def _more(lead: Estimate) -> str:
    """Return how much more or less the team earns, with the interval."""
    amount = f"{format_number(abs(lead.mean))} {'more' if lead.mean >= 0.0 else 'less'}"
    if lead.low is None:
        return f"{amount} (no interval)"
    return f"{amount} (between {format_number(lead.low, True)} and {format_number(lead.high, True)})"
