"""Fixed players for the submatches of a seat that is played from outside this league, as in PettingZoo."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from arena.records import Cast, MatchRequest, Sampler
from arena.scheduler import play
from arena.submatches import attempt_of
from games.common.errors import UsageError, unknown_name
from games.common.seeds import derive_seed
from games.registry import make_game, with_submatches
from games.spec import Attempt, GameSpec, Submatch
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from roles.role import Role


class GivenTeammates:
    """Plays the submatches of a game; a ``games.pettingzoo.Teammates``."""

    def __init__(self, game: str, players: Mapping[str, str]) -> None:
        """``players`` gives every role of the submatches, "game/role", a player as ``league match`` takes it.

        Raises UsageError for a role without a player, and for an unknown role or player.
        """
        specs = [make_game(name).spec for name in with_submatches([game])[1:]]
        cards = {spec.name: seat_roles(RolesConfig(), spec) for spec in specs}
        names = [f"{name}/{role.name}" for name, seats in cards.items() for role in seats]
        for name in players:
            if name not in names:
                raise unknown_name("role", name, names, f"They are the roles of the matches that {game} opens.")
        if missing := [name for name in names if name not in players]:
            raise UsageError(f"{game} opens matches in which nobody plays {missing[0]}. Give it a player.")
        self._engines = Engines()
        try:
            self._players = {spec.name: self._resolved(spec, cards[spec.name], players) for spec in specs}
        except BaseException:
            self.close()
            raise
        self._samplers: dict[str, Sampler] = {}
        for seats in self._players.values():
            for player in seats:
                self._samplers |= player.engines()

    def play(self, submatches: Sequence[Submatch], seed: int, first: int) -> list[Attempt]:
        """See ``games.pettingzoo.Teammates``."""
        casts = self._casts(seed, first)
        seats = {cast.game: cast for cast in casts}
        requests = [
            MatchRequest(
                index=number,
                game=submatch.game,
                deal_seed=seed,
                sample_seed=derive_seed(seed, "opened", submatch.drawn_as(number)),
                players=seats[submatch.game].players,
                trained=seats[submatch.game].trained,
                parent=-1,
                task=submatch.task,
                cast=casts,
                given=submatch.given,
            )
            for number, submatch in enumerate(submatches, first)
        ]
        roles = {
            name: tuple(player.roles[seat] for seat, player in enumerate(players))
            for name, players in self._players.items()
        }
        episodes = play(requests, roles_of=roles.__getitem__, engine_of=self._samplers.__getitem__, make_game=make_game)
        return [*map(attempt_of, episodes)]

    def close(self) -> None:
        """Close the players' engines."""
        self._engines.__exit__()

    def _resolved(self, spec: GameSpec, roles: Sequence[Role], players: Mapping[str, str]) -> tuple[Player, ...]:
        """Return who sits in each seat of a game."""  # [seats]
        return tuple(resolve(players[f"{spec.name}/{role.name}"], spec, self._engines) for role in roles)

    def _casts(self, seed: int, first: int) -> tuple[Cast, ...]:
        """Return the players of all submatches; a mixture draws one player for all that are opened together."""
        rng = random.Random(derive_seed(seed, "members", first))
        return tuple(
            Cast(name, tuple(p.draw(seat, rng) for seat, p in enumerate(players)), (False,) * len(players))
            for name, players in self._players.items()
        )
