"""``league team``: does a run's team earn its keep, and which of its roles does?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.console import Console

from games.registry import make_game
from games.spec import GameSpec
from league.cli.formatting import (
    estimate_to_json,
    format_interval,
    format_number,
    match_progress,
    plain_table,
    print_usage,
)
from league.cli.measuring.team_words import line_up_sentence, role_sentence, without_alone
from league.lab.comparisons.pairings import try_out
from league.lab.comparisons.team_lineups import LineUpKind, Place, Team, line_ups, play_line_up, seated
from league.lab.comparisons.team_of_run import LonePlayer, lone_player, team_game, team_of, team_tokens, trained_apart
from league.lab.comparisons.team_verdicts import (
    ERROR,
    RoleVerdict,
    TeamTable,
    check_margin,
    compare_line_ups,
    verdicts_by_role,
)
from league.population.players.engines import Engines
from league.population.players.settings import PlayerSettings
from league.population.storage.run_dir import open_run


class TeamReport(NamedTuple):
    """A team beside its line-ups."""

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
    check_margin(arguments.margin)
    trained = open_run(arguments.run)
    team = team_of(trained, team_game(trained, arguments.game))
    tokens = team_tokens(trained, team)
    alone = lone_player(arguments.alone, team, tokens) if arguments.alone else None
    apart = trained_apart(arguments.apart, team)
    asked = line_ups(team, list(dict.fromkeys(arguments.stand_in)), apart, alone.player if alone else "")
    with Engines(PlayerSettings.of(arguments)) as engines:
        for line_up in asked:
            try_out(seated(line_up, team, engines))
        engines.check_settings([str(trained.path), *arguments.stand_in])
        with match_progress() as progress:
            task = progress.add_task("playing line-ups", total=len(asked) * arguments.matches)
            played = [
                play_line_up(
                    line_up, team, arguments.matches, arguments.seed, engines, lambda _: progress.advance(task)
                )
                for line_up in asked
            ]
        table = compare_line_ups(played, team.spec, arguments.margin)
        verdicts, usage = verdicts_by_role(table, team), engines.usage()
    return TeamReport(
        str(trained.path), team, arguments.matches, arguments.seed, tokens, alone, table, verdicts, dict(usage)
    )


def to_json(report: TeamReport) -> dict[str, Any]:
    """Return the report as JSON data. What was not computed is null."""
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
                "kind": str(one.line_up.kind),
                "line_up": one.line_up.words,
                "role": None if one.line_up.role is None else team.roles[one.line_up.role],
                "players": _names(team, one.line_up.players),
                **estimate_to_json("return", one.returns),
                **estimate_to_json("loss", one.loss),
                "team_is": str(one.standing),
                "tokens": one.tokens,
            }
            for one in table.comparisons
        ],
        "roles": {team.roles[place]: str(verdict) for place, verdict in report.verdicts.items()},
        "alone": None if report.alone is None else report.alone._asdict(),
        "sentences": _sentences(report),
    }


def _names(team: Team, players: Mapping[Place, str]) -> dict[str, str]:
    """Return players by role; of a game outside the team, by the name of its role there."""
    return {team.roles.get(place) or make_game(place[0]).spec.alias: name for place, name in players.items()}


def _sentences(report: TeamReport) -> list[str]:
    """Return one sentence on each role, and one on each other comparison."""
    table, team = report.table, report.team
    found = [
        role_sentence(team.roles[place], verdict, table.replacements(place), table.margin)
        for place, verdict in report.verdicts.items()
    ]
    others = [one for one in table.comparisons if one.line_up.role is None]
    found += [line_up_sentence(one, report.alone, report.trained_tokens) for one in others]
    has_alone = any(one.line_up.kind is LineUpKind.ALONE for one in table.comparisons)
    return found if has_alone else [*found, without_alone(team.spec)]


def print_report(report: TeamReport, console: Console) -> None:
    """Print the table and the sentences."""
    table = report.table
    console.print(f"{report.run} in {report.spec.alias}: does the team earn its keep?", style="bold", markup=False)
    shown = plain_table("line-up", "lead", "from", "to", "team is", "tokens")
    for one in table.comparisons:
        lead = [format_number(bound, True) for bound in one.loss]
        shown.add_row(one.line_up.words, *lead, str(one.standing), _format_tokens(one.tokens))
    tokens = "" if table.tokens is None else f", with {_format_tokens(table.tokens)} tokens of replies a match"
    console.print(f"The team as it is: mean return {format_interval(table.returns)}{tokens}.")
    console.print(f"{report.deals} deals, each played once by every line-up (seed {report.seed}).")
    console.print(
        f"All intervals of its leads hold together with 95% confidence; within {table.margin:.3g} they do not matter.\n"
    )
    console.print(shown)
    console.print()
    for sentence in _sentences(report):
        console.print(sentence, markup=False, highlight=False)
    print_usage(report.usage, console)


def _format_tokens(tokens: float | None) -> str:
    return "–" if tokens is None else f"{tokens:.1f}"
