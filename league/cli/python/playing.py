"""Play and measure players from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from arena.records import Episode
from games.registry import make_game
from league.cli.measuring.exploitability import measure
from league.cli.python.teammates import GivenTeammates
from league.population.evaluation.exploitability_report import ExploitabilityReport
from league.population.evaluation.head_to_head import HeadToHead, compare
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.storage.run_dir import load_plugins_of


def match(
    first: object,
    second: object,
    *,
    game: str,
    matches: int = 400,
    seed: int = 0,
    on_episode: Callable[[Episode], None] | None = None,
) -> HeadToHead:
    """Play two players (names as on the command line, or runs) in at least ``matches`` matches, deals in all seatings.

    The result has scores and returns with their intervals, and the episodes. ``on_episode`` is called with each match
    as it ends. Raises UsageError, with the nearest names, for an unknown player or game.
    """
    names = (str(first), str(second))
    load_plugins_of(names)
    spec = make_game(game).spec
    with Engines() as engines:
        players = resolve(names[0], spec, engines), resolve(names[1], spec, engines)
        return compare(players, matches, seed, on_episode)


def exploitability(player: object, *, game: str) -> ExploitabilityReport:
    """Return a best response's gain against a player: ``.exploitability``, ``.nash_conv``, and values by seat.

    Exact where the player's probabilities are known. Raises UsageError for a game that is too large to be enumerated.
    """
    load_plugins_of([str(player)])
    with Engines() as engines:
        return measure(resolve(str(player), make_game(game).spec, engines))


def pettingzoo_env(game: str, *, players: Mapping[str, object] | None = None, render_mode: str | None = None) -> Any:
    """Return a game as PettingZoo's AECEnv, as ``games.pettingzoo.env`` does, its submatches played by fixed players.

    ``players`` are by role, "game/role"; a game that opens no matches takes none. Close the environment to free them.
    Raises UsageError for a role without a player, and for an unknown role or player.
    """
    from games.pettingzoo import env  # slow to import

    named = {role: str(player) for role, player in (players or {}).items()}
    load_plugins_of(named.values())
    opens = make_game(game).spec.submatch_games
    return env(game, render_mode, GivenTeammates(game, named) if opens or named else None)
