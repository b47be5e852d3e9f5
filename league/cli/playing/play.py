"""``league play``: one match of a person against a player, at the terminal."""

from __future__ import annotations

import argparse
import random
import secrets
import sys
from typing import TYPE_CHECKING

from games.common.errors import UsageError
from league.cli.formatting import format_transcript, print_usage
from league.cli.parser import PLAYERS, SEED, Parser, add_game_option, add_player_options

if TYPE_CHECKING:
    from rich.console import Console

    from arena.records import Episode, Sampler
    from league.population.players.player import Player

EXAMPLES = ("--game kuhn_poker --against runs/pocket --seat 1",)
NOTES = PLAYERS
PERSON = "you"


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    add_game_option(parser)
    parser.add_argument("--against", required=True, metavar="PLAYER")
    parser.add_argument("--seat", type=int, default=0, metavar="K", help="your seat, counted from 0 (default: 0)")
    parser.add_argument("--seed", type=SEED, metavar="N", help="fixes the deal and the opponent's draws")
    add_player_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Play the match and print its result and transcript."""
    from games.registry import make_game
    from league.population.players.engines import Engines
    from league.population.players.player import resolve
    from league.population.players.settings import PlayerSettings
    from league.training.monitors.terminal import Terminal

    spec, seat = make_game(arguments.game).spec, arguments.seat
    if not 0 <= seat < spec.seats:
        raise UsageError(f"--seat {seat}: {spec.name} has seats 0 to {spec.seats - 1}.")
    if sys.stdin is None:
        raise UsageError("Standard input is closed, so nobody can play. Run this at a terminal, or pipe moves into it.")
    console = Terminal()
    with Engines(PlayerSettings.of(arguments)) as engines:
        opponent = resolve(arguments.against, spec, engines)
        engines.check_settings([arguments.against])
        episode = _play(opponent, seat, arguments.seed, console)
    labels = [PERSON if other == seat else opponent.label for other in range(spec.seats)]
    console.print(f"\n{_outcome(episode.returns, seat)}", style="bold")
    console.print("\nThe whole match, with what each player saw:", style="bold")
    console.print("\n".join(format_transcript(episode, labels)))
    print_usage(engines.usage(), console)
    return 0


def _play(opponent: Player, person_seat: int, seed: int | None, console: Console) -> Episode:
    """Play one match with the person in a seat; without a seed one is drawn, and printed."""
    from arena.records import MatchRequest
    from arena.samplers.human import Human
    from arena.scheduler import play
    from games.common.seeds import derive_seed
    from games.registry import make_game
    from roles.cards import with_overrides
    from roles.prompts import system_text
    from roles.role import OnIllegal, ReplyForm

    spec = opponent.spec
    seed = secrets.randbits(32) if seed is None else seed
    rng = random.Random(derive_seed(seed, "members"))
    players = tuple(PERSON if seat == person_seat else opponent.draw(seat, rng) for seat in range(spec.seats))
    # The user sees what the opponent would see, and answers with legal actions whatever form its replies have.
    roles = tuple(
        with_overrides(role, reply=ReplyForm.CHOICE, on_illegal=OnIllegal.MASK) if role.seat == person_seat else role
        for role in opponent.roles
    )
    engines: dict[str, Sampler] = opponent.engines()
    engines[PERSON] = Human(console.print, input)
    role = roles[person_seat]
    console.print(f"{system_text(role)}\n\nYou are {role.name}, against {opponent.label} (seed {seed}).")
    console.print("Type an action or its number; Ctrl-C leaves the match.")
    request = MatchRequest(
        index=0,
        game=spec.name,
        deal_seed=derive_seed(seed, "deal"),
        sample_seed=derive_seed(seed, "sample"),
        players=players,
        trained=(False,) * spec.seats,
        rule="play",
    )
    [episode] = play(
        [request],
        roles_of={spec.name: roles}.__getitem__,
        engine_of=engines.__getitem__,
        make_game=make_game,
        in_flight=1,
    )
    return episode


def _outcome(returns: tuple[float, ...], seat: int) -> str:
    """Return the result for the person in a seat."""
    value = f"{returns[seat]:+g}".replace("-", "−")
    best = max(returns)
    if returns.count(best) == len(returns):
        return f"Everyone gets the same: {value}."
    return f"You win: {value}." if returns[seat] == best else f"You do not win: {value}."
