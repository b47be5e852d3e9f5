"""``league games``: the games that can be played; ``league games GAME``: one of them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from games.aliases import ALIASES
from games.common.errors import UsageError
from league.cli.formatting import format_transcript
from league.cli.parser import Parser, add_json_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from arena.records import Episode, Sampler
    from games.spec import Game, GameSpec
    from roles.role import Role

EXAMPLES = ("", "kuhn_poker", "--json")
NAME_WIDTH = 21  # characters of a game's name in one line; longer ones are folded
SCRIPTS = ("good", "optimal")  # the player of a sample match, if the game has it; otherwise random play
_TURN = ("seat", "role", "observation", "legal", "form", "reply", "action", "reward")


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument(
        "game",
        metavar="GAME",
        nargs="*",
        help="show this game: what its seats read, and a sample match (or: show GAME)",
    )
    add_json_option(parser)


class GamesReport(NamedTuple):
    """The games that have texts for language models, with their roles, and the names of all other games."""

    games: list[tuple[GameSpec, list[str]]]
    other_names: list[str]


def run(arguments: argparse.Namespace) -> GamesReport | OneGame:
    """Return the games that can be played, or the report on one game. Raises UsageError for a wrong name."""
    from games.registry import game_facts, game_names
    from roles.cards import load_roles

    named = arguments.game[arguments.game[:1] == ["show"] :]
    if len(named) > 1 or (arguments.game and not named):
        raise UsageError("league games GAME shows one game: name a game, for example league games kuhn_poker.")
    if named:
        return _one_game(named[0])
    games = [(spec, [role.name for role in load_roles(spec)]) for spec in game_facts()]
    listed = {spec.name for spec, _ in games}
    return GamesReport(games, [name for name in game_names() if name not in listed])


def to_json(report: GamesReport | OneGame) -> dict[str, Any]:
    """Return the report as JSON data."""
    if not isinstance(report, GamesReport):
        return _one_game_to_json(report)
    return {
        "games": [{**asdict(spec), "alias": spec.alias, "roles": roles} for spec, roles in report.games],
        "others": report.other_names,
    }


def print_report(report: GamesReport | OneGame, console: Console) -> None:
    """Print the games by motive, one table each, or one game."""
    from games.spec import Utility

    if not isinstance(report, GamesReport):
        _print_one_game(report, console)
        return
    for utility in Utility:
        if games := [(spec, roles) for spec, roles in report.games if spec.utility is utility]:
            console.print(f"{utility.words[0].upper()}{utility.words[1:]}", style="bold", markup=False)
            console.print(_table(games))
            console.print()
    console.print("Short names, accepted wherever a game is named:")
    for name, alias in ALIASES.items():
        console.print(f"  {alias}: {name}", soft_wrap=True)
    console.print(
        f"\n{len(report.other_names)} more OpenSpiel games can be named too, with parameters as in "
        '"goofspiel(num_cards=4)":'
    )
    console.print(", ".join(report.other_names), style="dim", soft_wrap=False)


def _table(games: list[tuple[GameSpec, list[str]]]) -> Table:
    """Return the games of one motive as a table."""
    from rich.table import Table

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


class OneGame(NamedTuple):
    """A game, its roles, how many information states it has, and a sample match."""

    spec: GameSpec
    roles: tuple[Role, ...]  # [seats]
    states: int | None  # None: not enumerated
    why_not: str  # why not
    player: str  # who plays all seats of the sample
    sample: Episode
    last: tuple[str, ...]  # what each seat sees at the end of it  # [seats]


def _one_game(name: str) -> OneGame:
    """Return the report on a game. Raises UsageError for a wrong name, or a game that cannot be played here."""
    from games.registry import make_game
    from league.config.evaluation import EvaluationConfig
    from league.theory.exact.exploitability import count_information_states
    from roles.cards import load_roles

    game = make_game(name)
    player, engine = _sample_player(game)
    states, why_not = None, ""
    try:
        states = count_information_states(game.spec.name, EvaluationConfig().exact_limit)
    except UsageError as error:
        why_not = str(error)
    sample = _sample_match(game.spec, player, engine)
    return OneGame(game.spec, load_roles(game.spec), states, why_not, player, sample, _at_the_end(game, sample))


def _sample_player(game: Game) -> tuple[str, Sampler]:
    """Return who plays the sample: a script of the game, or random."""
    from arena.samplers.scripted import Random, Script
    from games.spec import HasScripts

    scripts = game.scripts() if isinstance(game, HasScripts) else {}
    name = next((name for name in SCRIPTS if name in scripts), None)
    return ("random", Random()) if name is None else (f"scripted:{name}", Script(name))


def _sample_match(spec: GameSpec, player: str, engine: Sampler) -> Episode:
    from arena.records import Cast, MatchRequest
    from arena.scheduler import play
    from games.registry import make_game, with_submatches
    from roles.cards import load_roles

    specs = [make_game(name).spec for name in with_submatches([spec.name])]
    roles = {game_spec.name: load_roles(game_spec) for game_spec in specs}
    cast = tuple(
        Cast(game_spec.name, (player,) * game_spec.seats, (False,) * game_spec.seats) for game_spec in specs[1:]
    )
    request = MatchRequest(0, spec.name, 1, 1, (player,) * spec.seats, (False,) * spec.seats, cast=cast)
    [episode] = play([request], roles_of=roles.__getitem__, engine_of=lambda _: engine, make_game=make_game)
    return episode


def _at_the_end(game: Game, sample: Episode) -> tuple[str, ...]:
    """Return what each seat sees at the end of a match without calls or submatches; () for any other."""
    if sample.children or any(turn.tool for turn in sample.turns):
        return ()
    game.reset(sample.request.deal_seed)
    for turn in sample.turns:
        if turn.action is not None:
            game.apply(turn.action)
    return tuple(game.observe(seat) for seat in range(game.spec.seats))


def _one_game_to_json(report: OneGame) -> dict[str, Any]:
    """Return the report as JSON data."""
    from roles.prompts import system_text

    turns = [{name: getattr(turn, name) for name in _TURN} for turn in report.sample.turns]
    return {
        **asdict(report.spec),
        "alias": report.spec.alias,
        "roles": [{"name": role.name, "told": system_text(role)} for role in report.roles],
        "information_states": report.states,
        "sample": {"player": report.player, "turns": turns, "returns": report.sample.returns, "seen": report.last},
    }


def _print_one_game(report: OneGame, console: Console) -> None:
    """Print the report."""
    from roles.prompts import system_text

    spec = report.spec
    hidden = "all seats see everything" if spec.perfect_information else "seats know different things"
    console.print(spec.name, style="bold", markup=False)
    facts = [
        f"{spec.seats} seat{'s' if spec.seats > 1 else ''}; {spec.utility.words}.",
        f"{hidden.capitalize()}{'; chance plays a part' if spec.has_chance else ''}.",
        f"Returns from {spec.min_return:g} to {spec.max_return:g}; {spec.max_turns} turns at most.",
        "Seats answer in free text." if spec.free_text else f"{spec.num_actions} different actions.",
        f"Exact: {report.states:,} information states." if report.states else f"Not exact. {report.why_not}",
    ]
    for line in facts:
        console.print(line, markup=False)
    for role in report.roles:
        console.print(f"\n{role.name} reads:", style="bold", markup=False)
        console.print(f"  {system_text(role)}", markup=False)
    console.print(f"\nA match in which {report.player} plays every seat:", style="bold", markup=False)
    for line in format_transcript(report.sample, report.sample.request.players):
        console.print(line, markup=False)
    for role, text in zip(report.roles, report.last, strict=False):
        console.print(f"\nAt the end {role.name} sees:", style="bold", markup=False)
        console.print(text, markup=False)
