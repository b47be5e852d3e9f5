"""Who meets whom in an evaluation by a suite, and which pairings are impossible, with the reason."""

from __future__ import annotations

from typing import NamedTuple

from arena.records import MatchRequest
from arena.scheduler import play
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import GameSpec
from league.config.suite import Suite
from league.population.evaluation.head_to_head import A, ScheduledMatch, roles_by_game, schedule, seatings
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve

ITSELF = "itself"  # an opponent's name: the player in all seats


class Pairing(NamedTuple):
    """One player against one opponent in one game."""

    game: str
    kind: str  # "training", "held out" or ""
    player: str
    opponent: str  # as the suite names it

    def seed(self, suite: Suite) -> int:
        """Return the seed of its deals, which are the same for all players and opponents in a game."""
        return derive_seed(suite.seed, "suite", self.game)


class Skipped(NamedTuple):
    """A player that cannot play a game."""

    game: str
    player: str  # or opponent
    reason: str


class Contest(NamedTuple):
    """A pairing with its players resolved, and its matches."""

    pairing: Pairing
    players: tuple[Player, Player]
    scheduled: list[ScheduledMatch]

    @property
    def spec(self) -> GameSpec:
        """The game's facts."""
        return self.players[A].spec


def pairings(suite: Suite, players: tuple[str, ...], engines: Engines) -> tuple[list[Pairing], list[Skipped]]:
    """Return who meets whom: one player meets each opponent; two players meet each other in zero-sum games.

    In other games two players meet the same opponents instead: earning more than the other is not the aim there.
    A game that one of the players cannot play is left out. Raises UsageError if nothing is left.
    """
    possible: list[Pairing] = []
    skipped: list[Skipped] = []
    for kind, game in suite.by_kind():
        spec = make_game(game).spec
        unable = [Skipped(game, player, reason) for player in players if (reason := _why_not(player, spec, engines))]
        skipped += unable
        if unable:
            continue
        if len(players) == 2 and spec.competitive and spec.seats > 1:
            possible.append(Pairing(game, kind, *players))
            continue
        for opponent in suite.opponents if spec.seats > 1 else (ITSELF,):
            if reason := "" if opponent == ITSELF else _why_not(opponent, spec, engines):
                skipped.append(Skipped(game, opponent, reason))
            elif opponent != ITSELF or not spec.competitive or spec.seats == 1:
                possible += [Pairing(game, kind, player, opponent) for player in players]
    if not possible:
        reasons = "\n".join(dict.fromkeys(f"{item.player}: {item.reason}" for item in skipped))
        raise UsageError(f"Nothing in this suite can be played.\n{reasons}")
    return possible, skipped


def contest_of(pairing: Pairing, suite: Suite, engines: Engines) -> Contest:
    """Return a pairing ready to be played."""
    spec = make_game(pairing.game).spec
    opponent = pairing.player if pairing.opponent == ITSELF else pairing.opponent
    players = (resolve(pairing.player, spec, engines), resolve(opponent, spec, engines))
    return Contest(pairing, players, schedule(players, suite.matches, pairing.seed(suite)))


def try_out(player: Player) -> None:
    """Let a player play one match with itself, which is not counted. Raises UsageError if it cannot play the game."""
    request: MatchRequest = schedule((player, player), 1, seed=0)[0].request
    play(
        [request],
        roles_of=roles_by_game((player, player), seatings(player.spec)[0]).__getitem__,
        engine_of=player.engines().__getitem__,
        make_game=make_game,
    )


def _why_not(player: str, spec: GameSpec, engines: Engines) -> str:
    """Return why a player cannot play a game; "" if it can."""
    try:
        try_out(resolve(player, spec, engines))
    except UsageError as error:
        if str(error).startswith("There is no player"):
            raise
        return str(error)
    return ""
