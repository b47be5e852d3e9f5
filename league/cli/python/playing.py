"""Play and measure players from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from arena.records import Episode
from games.registry import make_game
from league.cli.measuring.credit import CreditReport, reason_to_sample
from league.cli.measuring.credit import measure as measure_credit
from league.cli.measuring.exploitability import measure
from league.cli.python.teammates import GivenTeammates
from league.config.credit import CreditConfig
from league.lab.credit.foreign import Signature, foreign_rule
from league.lab.credit.matches import BatchPlan
from league.lab.standings.battle_ratings import BattleRatings, rate
from league.lab.standings.battles import battles_of, read_battles
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


def credit_check(
    function: Callable[..., Any],
    signature: Signature = "verl",
    *,
    game: str = "kuhn_poker",
    player: object = "random",
    rules: Sequence[str] = (),
    plan: BatchPlan | None = None,
) -> CreditReport:
    """Measure an advantage function of anybody's trainer: bias, noise and matches needed, by role and turn.

    The function is called unchanged, with the arrays of ``signature`` ("verl", "trl", "prime_rl" or "league";
    ``league.lab.credit.foreign``), on matches that ``player`` plays with itself: ``plan``, or 16 batches of 512. Its
    gradient is compared with the exact one. ``report.rules[0]`` is the exact advantage, ``[1]`` the function, and
    ``rules`` follow. Raises UsageError for a function with other parameters, or another result.
    """
    load_plugins_of([str(player)])
    given = [foreign_rule(function, signature)]
    with Engines() as engines:
        resolved = resolve(str(player), make_game(game).spec, engines)
        sampled = reason_to_sample(resolved)
        return measure_credit(resolved, CreditConfig(), plan or BatchPlan(), rules, sampled, given)


def ratings(battles: str | Path | Iterable[Mapping[str, Any]], *, seed: int = 0) -> BattleRatings:
    """Rate the players of battles: a CSV, or records with its columns (model_a, model_b, winner or score, game, deal).

    ``.players`` have the best rating first: Bradley-Terry with its interval, Nash averaging, maximal lotteries, ranked
    pairs, Soft Condorcet, and whether each is among the leaders. The order of the battles changes nothing. Raises
    UsageError for invalid battles.
    """
    return rate(read_battles(battles) if isinstance(battles, str | Path) else battles_of(battles), seed)


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
