"""``league games``: the games that can be played; ``league games show GAME``: one of them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from games.aliases import ALIASES
from games.common.errors import UsageError
from games.registry import game_facts, game_names
from games.spec import GameSpec, Utility
from roles.cards import load_roles

if TYPE_CHECKING:  # the list needs none of what a match of one game needs
    from league.cli.showing.one_game import OneGame

NAME_WIDTH = 21  # characters of a game's name in one line; longer ones are folded


class GamesReport(NamedTuple):
    """The games that have texts for language models, with their roles, and the names of all other games."""

    games: list[tuple[GameSpec, list[str]]]
    other_names: list[str]


def run(arguments: argparse.Namespace) -> GamesReport | OneGame:
    """Return the games that can be played, or what is known of one. Raises UsageError for a wrong name."""
    if arguments.show:
        if not arguments.game:
            raise UsageError("league games show: name a game, for example league games show kuhn_poker.")
        from league.cli.showing.one_game import show_game

        return show_game(arguments.game)
    games = [(spec, [role.name for role in load_roles(spec)]) for spec in game_facts()]
    listed = {spec.name for spec, _ in games}
    return GamesReport(games, [name for name in game_names() if name not in listed])


def to_json(report: GamesReport | OneGame) -> dict[str, Any]:
    """Return the report as JSON data."""
    if not isinstance(report, GamesReport):
        from league.cli.showing import one_game

        return one_game.to_json(report)
    return {
        "games": [{**asdict(spec), "alias": spec.alias, "roles": roles} for spec, roles in report.games],
        "others": report.other_names,
    }


def print_report(report: GamesReport | OneGame, console: Console) -> None:
    """Print the games by motive, a table each, or one game."""
    if not isinstance(report, GamesReport):
        from league.cli.showing import one_game

        one_game.print_report(report, console)
        return
    for utility in Utility:
        if games := [(spec, roles) for spec, roles in report.games if spec.utility is utility]:
            console.print(f"{utility.words[0].upper()}{utility.words[1:]}", style="bold", markup=False)
            console.print(_table(games))
            console.print()
    console.print("Short names, which are taken wherever a game is named:")
    for name, alias in ALIASES.items():
        console.print(f"  {alias}: {name}", soft_wrap=True)
    console.print(
        f"\n{len(report.other_names)} more of OpenSpiel's games can be named too, with parameters as in "
        '"goofspiel(num_cards=4)":'
    )
    console.print(", ".join(report.other_names), style="dim", soft_wrap=False)


def _table(games: list[tuple[GameSpec, list[str]]]) -> Table:
    """Return the games of one motive as a table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("game", min_width=NAME_WIDTH, overflow="fold")
    for column in ("roles", "hidden", "returns", "turns", "suite"):
        table.add_column(column, no_wrap=column != "roles")
    for spec, roles in games:
        table.add_row(
            spec.alias,
            ", ".join(roles),
            "no" if spec.perfect_information else "yes",
            f"{spec.min_return:g} to {spec.max_return:g}",
            f"≤ {spec.max_turns}",
            spec.suite or "–",
        )
    return table
