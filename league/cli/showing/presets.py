"""``league show presets``: the configurations that come with the project."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import short_name
from games.common.errors import unknown_name
from league.cli.formatting import plain_table
from league.cli.parser import Parser, add_json_option

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = ("", "pocket")


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this preset only, with its whole file")
    add_json_option(parser)


class Preset(NamedTuple):
    """A configuration that comes with the project."""

    name: str
    about: str  # the first line of its file
    games: list[str]
    model: str
    iterations: int
    device: str


def run(arguments: argparse.Namespace) -> list[Preset]:
    """Return the presets, or the one that is named."""
    from league.config.load import preset_names

    names = preset_names()
    if arguments.name not in (None, *names):
        raise unknown_name("preset", arguments.name, names)
    return [_preset(name) for name in names if arguments.name in (None, name)]


def to_json(report: Sequence[Preset]) -> list[dict[str, Any]]:
    """Return the presets as JSON data."""
    return [preset._asdict() for preset in report]


def print_report(report: Sequence[Preset], console: Console) -> None:
    """Print the presets with what each of them trains."""
    from league.config.load import PRESETS

    table = plain_table("preset", "model", "games", "iterations", "device")
    table.columns[2].no_wrap = False  # the longest names, since names of presets and models are typed
    for preset in report:
        table.add_row(preset.name, preset.model, ", ".join(preset.games), str(preset.iterations), preset.device)
    console.print(table)
    if len(report) == 1:
        [preset] = report
        console.print(f"\n{(PRESETS / f'{preset.name}.toml').read_text(encoding='utf-8').strip()}", markup=False)
        console.print(f"\nTrain it:  league train {preset.name}", markup=False)
        return
    console.print()
    for preset in report:
        console.print(f"{preset.name}: {preset.about}", markup=False)
    console.print("\nTrain one:        league train pocket\nWith changes:     league train pocket --set iterations=50")
    console.print(f"Start your own from one of the files in {PRESETS}: league train my.toml", markup=False)


def _preset(name: str) -> Preset:
    from league.config.load import PRESETS, load

    config = load(name, ["threads=1"])  # which nobody is shown, and would be measured
    with (PRESETS / f"{name}.toml").open(encoding="utf-8") as file:
        about = file.readline().removeprefix("#").strip()
    games = [short_name(game) for game in config.games]
    return Preset(name, about, games, config.model.source, config.iterations, config.model.device)
