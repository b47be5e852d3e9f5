"""``league show plugins``: what outside modules and installed packages add to the league."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from games.common.plugins import Listed, noun_of
from league.cli.formatting import plain_table
from league.cli.parser import Parser, add_json_option

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = ("", "--plugin my_games")


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    add_json_option(parser)


def run(_: argparse.Namespace) -> list[Listed]:
    """Load all installed plugins; return what they have."""
    from games.common.registry import listed

    return listed()


def to_json(report: Sequence[Listed]) -> list[dict[str, Any]]:
    """Return the entries as JSON data; ``error`` is null for one that can be used."""
    return [{**entry._asdict(), "error": entry.error or None} for entry in report]


def print_report(report: Sequence[Listed], console: Console) -> None:
    """Print the entries as a table, and under it why some cannot be used."""
    if not report:
        console.print(
            "There are no plugins. A package provides them through entry points (league.games, league.credit, …), or "
            "you name a module: --plugin my_games. See: league show docs extending"
        )
        return
    table = plain_table("plugin", "what it adds", "name", "")
    for entry in report:
        table.add_row(entry.plugin, noun_of(entry.group), entry.name, "cannot be loaded" if entry.error else "")
    console.print(table)
    for entry in report:
        if entry.error:
            console.print(f"\n{entry.error}", markup=False)
