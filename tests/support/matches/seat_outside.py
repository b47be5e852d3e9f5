"""Matches in which a program outside has one seat and says the same thing always, as the league itself plays them."""

from arena.records import MatchRequest
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.players.scripted import scripted_player


def own_returns(count, seed, action, against="random", game="kuhn_poker"):
    """Return what each of the first matches pays the seat outside, which alternates."""
    players = {"model": scripted_player(f"always:{action}"), "other": scripted_player(against)}
    requests = [
        MatchRequest(
            number,
            game,
            derive_seed(seed, "deal", game, number // 2),
            derive_seed(seed, "sample", game, number),
            ("model", "other")[:: (-1) ** number],
            (False, False),
        )
        for number in range(count)
    ]
    roles = seat_roles(RolesConfig(), make_game(game).spec)
    episodes = play(requests, roles_of=lambda _: roles, engine_of=players.__getitem__, make_game=make_game)
    return [episode.returns[number % 2] for number, episode in enumerate(episodes)]
