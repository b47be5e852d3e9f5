"""``league games show GAME``: what seats are told, a sample match as they see it, and what is known of the game."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

from rich.console import Console

from arena.records import Cast, Episode, MatchRequest, Sampler
from arena.samplers.scripted import Random, Script
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game, with_submatches
from games.spec import Game, GameSpec, HasScripts
from league.cli.formatting import format_transcript
from league.config.evaluation import EvaluationConfig
from league.theory.exact.exploitability import count_information_states
from roles.cards import load_roles
from roles.prompts import system_text
from roles.role import Role

SCRIPTS = ("good", "optimal")  # of which a sample match is played, if the game has one; else at random


class OneGame(NamedTuple):
    """A game, its roles, how many information states it has, and a sample match."""

    spec: GameSpec
    roles: tuple[Role, ...]  # [seats]
    states: int | None  # None: not enumerated
    why_not: str  # why it is not
    player: str  # who plays all seats of the sample
    sample: Episode
    last: tuple[str, ...]  # what each seat sees at the end of it  # [seats]


def show_game(name: str) -> OneGame:
    """Return what is known of a game. Raises UsageError for a wrong name, or one that nobody here can play."""
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
    scripts = game.scripts() if isinstance(game, HasScripts) else {}
    name = next((name for name in SCRIPTS if name in scripts), None)
    return ("random", Random()) if name is None else (f"scripted:{name}", Script(name))


def _sample_match(spec: GameSpec, player: str, engine: Sampler) -> Episode:
    specs = [make_game(name).spec for name in with_submatches([spec.name])]
    roles = {one.name: load_roles(one) for one in specs}
    cast = tuple(Cast(one.name, (player,) * one.seats, (False,) * one.seats) for one in specs[1:])
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


def to_json(report: OneGame) -> dict[str, Any]:
    """Return the report as JSON data."""
    turns = [{name: getattr(turn, name) for name in _TURN} for turn in report.sample.turns]
    return {
        **asdict(report.spec),
        "alias": report.spec.alias,
        "roles": [{"name": role.name, "told": system_text(role)} for role in report.roles],
        "information_states": report.states,
        "sample": {"player": report.player, "turns": turns, "returns": report.sample.returns, "seen": report.last},
    }


_TURN = ("seat", "role", "observation", "legal", "form", "reply", "action", "reward")


def print_report(report: OneGame, console: Console) -> None:
    """Print the report."""
    spec = report.spec
    hidden = "all is seen by all" if spec.perfect_information else "seats know different things"
    console.print(spec.name, style="bold", markup=False)
    facts = [
        f"{spec.seats} seat{'s' if spec.seats > 1 else ''}; {spec.utility.words}.",
        f"{hidden.capitalize()}{'; chance plays a part' if spec.has_chance else ''}.",
        f"Returns from {spec.min_return:g} to {spec.max_return:g}; {spec.max_turns} turns at most.",
        "Seats answer in their own words." if spec.free_text else f"{spec.num_actions} different actions.",
        f"Exact: {report.states:,} information states." if report.states else f"Not exact. {report.why_not}",
    ]
    for line in facts:
        console.print(line, markup=False)
    for role in report.roles:
        console.print(f"\n{role.name} is told:", style="bold", markup=False)
        console.print(f"  {system_text(role)}", markup=False)
    console.print(f"\nA match in which {report.player} plays every seat:", style="bold", markup=False)
    for line in format_transcript(report.sample, report.sample.request.players):
        console.print(line, markup=False)
    for role, text in zip(report.roles, report.last, strict=False):
        console.print(f"\nAt the end {role.name} sees:", style="bold", markup=False)
        console.print(text, markup=False)
