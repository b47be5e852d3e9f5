"""``league games``: the games that can be played."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from games.registry import game_facts, game_names
from games.spec import GameSpec
from roles.cards import load_roles

SHORT = 21  # letters of a game's name that are never cut; longer ones are folded


class Found(NamedTuple):
    """The games whose words are made for language models, with their roles, and the names of all others."""

    games: list[tuple[GameSpec, list[str]]]
    others: list[str]


def run(_: argparse.Namespace) -> Found:
    """Return the games."""
    games = [(spec, [role.name for role in load_roles(spec)]) for spec in game_facts()]
    known = {spec.name for spec, _ in games}
    return Found(games, [name for name in game_names() if name not in known])


def document(found: Found) -> dict[str, Any]:
    """Return the games as JSON data."""
    return {"games": [{**asdict(spec), "roles": roles} for spec, roles in found.games], "others": found.others}


def tell(found: Found, console: Console) -> None:
    """Print the games as a table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("game", min_width=SHORT, overflow="fold")
    for column in ("roles", "kind", "hidden", "returns", "turns"):
        table.add_column(column, no_wrap=column != "roles")
    for spec, roles in found.games:
        table.add_row(
            spec.name,
            ", ".join(roles),
            spec.utility.value.replace("_", "-").replace("identical", "cooperative"),
            "no" if spec.perfect_information else "yes",
            f"{spec.min_return:g} to {spec.max_return:g}",
            f"≤ {spec.max_turns}",
        )
    console.print(table)
    console.print(
        f"\n{len(found.others)} more of OpenSpiel's games can be named too, with parameters as in "
        '"goofspiel(num_cards=4)":'
    )
    console.print(", ".join(found.others), style="dim", soft_wrap=False)
