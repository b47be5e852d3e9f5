"""Players from outside a run that can play in it: scripted players, best responses, models behind servers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from arena.records import ReplyRequest, Sampler
from games.common.errors import UsageError, unknown_name
from games.registry import make_game
from league.config import RunConfig
from league.players.engines import Engines
from league.players.player import exploiter
from league.players.scripted import scripted_forms, scripted_player
from roles.role import Roles


def outside_engines(names: Sequence[str], setting: str, engines: Engines) -> dict[str, Sampler]:
    """Return the engine of each scripted player, best response, or player behind a server, by name.

    Raises UsageError, with the name of the setting, for any other name.
    """
    by_name: dict[str, Sampler] = {}
    for name in names:
        engine = outside_engine(name, engines)
        if engine is None:
            raise _unknown(name, setting)
        by_name[name] = engine
    return by_name


def scripted_only(names: Sequence[str]) -> dict[str, Sampler]:
    """Return the engines of the scripted players among names, which cost nothing to make.

    Raises UsageError for a name that is no player's from outside.
    """
    by_name: dict[str, Sampler] = {}
    for name in names:
        if engine := scripted_player(name):
            by_name[name] = engine
        elif not name.startswith(("best_response:", "openai:")):
            raise _unknown(name, "evaluation.anchors or matchmaking.guests")
    return by_name


def _unknown(name: str, setting: str) -> UsageError:
    valid = [*scripted_forms(), "best_response:DIR", "openai:MODEL"]
    return unknown_name("scripted player", name, valid, f"Set {setting}.")


def outside_engine(text: str, engines: Engines) -> Sampler | None:
    """Return the engine of a player from outside a run; None for any other name."""
    return engines.scripted(text) or exploiter(text, engines) or engines.remote(text)


def check_players(engines: Mapping[str, Sampler], roles: Roles) -> None:
    """Request a reply of each player in every seat of every game. Raises UsageError for one that cannot play there."""
    for game, seats in roles.items():
        for name, engine in engines.items():
            position, untried = make_game(game), set(range(len(seats)))
            position.reset(0)
            while untried and (seat := position.to_act()) is not None:
                if seat in untried:
                    shown = (position.observe(seat), position.legal_actions(), (), random.Random(0))
                    engine.sample([ReplyRequest(name, seats[seat], position, *shown)])
                    untried.remove(seat)
                position.apply(position.legal_actions()[0])


def anchors_and_guests(config: RunConfig, engines: Engines) -> dict[str, Sampler]:
    """Return the engines of a run's anchors and guests. Raises UsageError for a player that is not from outside."""
    anchors = outside_engines(config.evaluation.anchors, "evaluation.anchors", engines)
    return anchors | outside_engines(config.matchmaking.guests, "matchmaking.guests", engines)
