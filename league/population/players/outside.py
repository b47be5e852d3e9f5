"""Players from outside a run that can play in it: scripted players, best responses, models behind servers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from arena.contexts import request_in
from arena.records import Sampler
from games.common.errors import UsageError, unknown_name
from games.registry import make_game
from games.spec import FreeText, Game
from league.config import RunConfig
from league.population.players.engines import Engines
from league.population.players.player import exploiter
from league.population.players.scripted import scripted_forms, scripted_player
from roles.replies import read_free_text
from roles.role import Role, Roles


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

    Raises UsageError for a name that is not a player from outside.
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
                actions = position.actions()
                if isinstance(actions, FreeText):
                    action = _try_words(name, engine, seats[seat], position, actions)
                    if action is None:
                        break  # it can play; the content of its reply does not matter
                    untried.discard(seat)
                    position.apply(action)
                    continue
                if seat in untried:
                    engine.sample([request_in(name, seats[seat], position, random.Random(0))])
                    untried.remove(seat)
                position.apply(actions.labels[0])


def _try_words(name: str, engine: Sampler, role: Role, position: Game, form: FreeText) -> str | None:
    """Return the action that a player's words name in a position; None if they name none."""
    [reply] = engine.sample([request_in(name, role, position, random.Random(0))])
    return read_free_text(form, reply.text)


def anchors_and_guests(config: RunConfig, engines: Engines) -> dict[str, Sampler]:
    """Return the engines of a run's anchors, guests and control. Raises UsageError for one that is not from outside."""
    anchors = outside_engines(config.evaluation.anchors, "evaluation.anchors", engines)
    anchors |= outside_engines(config.curriculum.controls, "curriculum.control", engines)
    return anchors | outside_engines(config.matchmaking.guests, "matchmaking.guests", engines)
