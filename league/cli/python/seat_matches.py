"""One seat of a game for an outside program: it answers that seat's turns, and one of our players has all other seats.
Interfaces (verifiers, OpenEnv, MCP) ask ``SeatMatches`` for a match by number and answer it turn by turn. The matches,
their rewards and forfeits are the league's: the referee plays them.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Generator
from typing import Any

from arena.records import Episode, MatchRequest, Reply, ReplyRequest
from arena.referee import play_match
from games.common.errors import UsageError
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.population.storage.run_dir import load_plugins_of
from roles.chat_text import Message
from roles.prompts import messages
from roles.role import Role

MODEL = "model"  # the player id of who is outside


class SeatMatch:
    """One match, up to the next turn of the outside seat; ``episode`` is None until it is over."""

    def __init__(
        self, request: MatchRequest, seat: int, roles: tuple[Role, ...], opponent: Player, lock: threading.Lock
    ) -> None:
        self.seat, self.role, self._opponent, self._lock = seat, roles[seat].name, opponent, lock
        game = make_game(request.game)
        self._play: Generator[Any, Any, Episode] = play_match(request, game, roles)
        self._asked: ReplyRequest | None = None
        self.episode: Episode | None = None
        self._advance(None)

    @property
    def prompt(self) -> list[Message]:
        """The chat for the seat's present turn; empty when the match is over."""
        request = self._asked
        if request is None:
            return []
        return messages(request.role, request.observation, request.legal, request.refusals, request.form)

    @property
    def legal(self) -> tuple[str, ...]:
        """The actions to choose from now; () where free text is requested, and when the match is over."""
        return () if self._asked is None else self._asked.legal

    @property
    def seat_return(self) -> float | None:
        """What the match paid the seat, in the game's units; None until it is over."""
        return None if self.episode is None else self.episode.returns[self.seat]

    @property
    def illegal_replies(self) -> int:
        """How many of the seat's replies were illegal, once the match is over."""
        turns = () if self.episode is None else self.episode.turns
        return sum(turn.player == MODEL and turn.action is None and not turn.tool for turn in turns)

    def answer(self, text: str) -> None:
        """Play the seat's reply, and those of the other seats up to its next turn."""
        self._advance(Reply(text))

    def _advance(self, reply: Reply | None) -> None:
        with self._lock:  # players' engines answer one thread at a time
            try:
                request = self._play.send(reply)
                while request.role.seat != self.seat:
                    request = self._play.send(self._opponent.engine.sample([request])[0])
                self._asked = request
            except StopIteration as end:
                self._asked, self.episode = None, end.value


class SeatMatches:
    """Matches by number; each can be started any number of times, and always starts the same. Matches 2k and 2k + 1 of
    a two-seat game are one deal, with each seat played from outside once.
    """

    def __init__(self, opponent: Player, roles: tuple[Role, ...], seed: int, rule: str) -> None:
        self._opponent, self._roles, self._seed, self._rule = opponent, roles, seed, rule
        self._lock = threading.Lock()
        self.spec = opponent.spec

    def begin(self, number: int) -> SeatMatch:
        """Return a match at the outside seat's first turn, or at its end if that seat has no turn."""
        name, seats = self.spec.name, self.spec.seats
        deal, seat = divmod(number, seats)
        rng = random.Random(derive_seed(self._seed, "members", name, number))
        players = [self._opponent.draw(other, rng) for other in range(seats)]
        players[seat] = MODEL
        roles = [self._roles[seat] if other == seat else self._opponent.roles[other] for other in range(seats)]
        seeds = (derive_seed(self._seed, "deal", name, deal), derive_seed(self._seed, "sample", name, number))
        request = MatchRequest(number, name, *seeds, tuple(players), (False,) * seats, rule=self._rule)
        return SeatMatch(request, seat, tuple(roles), self._opponent, self._lock)


def seat_matches(
    game: str, against: str, engines: Engines, *, retries: int = 1, seed: int = 0, rule: str = ""
) -> SeatMatches:
    """Return the matches of a game whose other seats ``against`` plays, a player as on the command line.

    The outside seat replies freely, and an illegal reply may be retried ``retries`` times before the seat forfeits.
    Raises UsageError for a game or player that does not exist, and for a game whose matches open others.
    """
    load_plugins_of([against])
    spec = make_game(game).spec
    if spec.submatch_games:
        raise UsageError(f"Matches of {spec.name} open matches of other games, which {rule or 'one seat'} cannot play.")
    conduct = {"on_illegal": "retry", "retries": retries} if retries else {"on_illegal": "forfeit"}
    roles = seat_roles(RolesConfig.model_validate({"reply": "free", "wording": "full", **conduct}), spec)
    return SeatMatches(resolve(against, spec, engines), roles, seed, rule)
