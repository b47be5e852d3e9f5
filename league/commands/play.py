"""``league play``: one match of a person against a player, at the terminal."""

from __future__ import annotations

import argparse
import random
import secrets

from rich.console import Console

from arena.records import Episode, MatchRequest, Sampler
from arena.remote.usage import in_words
from arena.samplers.human import Human
from arena.scheduler import play
from games.errors import UsageError
from games.registry import make_game
from games.seeds import derive_seed
from league.commands.words import transcript
from league.config import RolesConfig
from league.player_engines import Engines
from league.players import Player, resolve
from league.settings import seat_roles
from roles.prompts import system_text

PERSON = "you"


def run(arguments: argparse.Namespace) -> int:
    """Play the match and show how it went."""
    spec, own = make_game(arguments.game).spec, arguments.seat
    if not 0 <= own < spec.seats:
        raise UsageError(f"--seat {own}: {spec.name} has seats 0 to {spec.seats - 1}.")
    console = Console(highlight=False, markup=False)
    with Engines() as engines:
        opponent = resolve(arguments.against, spec, engines)
        episode = _play(opponent, own, arguments.seed, console)
    labels = [PERSON if seat == own else opponent.label for seat in range(spec.seats)]
    console.print(f"\n{_outcome(episode.returns, own)}", style="bold")
    console.print("\nThe whole match, with what each player saw:", style="bold")
    console.print("\n".join(transcript(episode, labels)))
    for line in in_words(engines.usage()):
        console.print(f"\n{line}")
    return 0


def _play(opponent: Player, own: int, given: int | None, console: Console) -> Episode:
    """Play one match of the person in a seat; without a seed one is drawn, and told."""
    spec = opponent.spec
    seed = secrets.randbits(32) if given is None else given
    rng = random.Random(derive_seed(seed, "members"))
    players = tuple(PERSON if seat == own else opponent.draw(seat, rng) for seat in range(spec.seats))
    # The person answers with legal actions, whatever form the opponent's replies have.
    plain = seat_roles(RolesConfig(reply="choice"), spec)
    roles = tuple(plain[seat] if seat == own else opponent.roles[seat] for seat in range(spec.seats))
    engines: dict[str, Sampler] = dict.fromkeys(players, opponent.engine)
    engines[PERSON] = Human(console.print, input)
    console.print(f"{system_text(roles[own])}\n\nYou are {roles[own].name}, against {opponent.label} (seed {seed}).")
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


def _outcome(returns: tuple[float, ...], own: int) -> str:
    """Return the result in the person's eyes."""
    mine = f"{returns[own]:+g}".replace("-", "−")
    best = max(returns)
    if returns.count(best) == len(returns):
        return f"Everyone gets the same: {mine}."
    return f"You win: {mine}." if returns[own] == best else f"You do not win: {mine}."
