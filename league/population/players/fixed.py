"""Fixed players of a run's roles (``roles.player``): any players, which the run does not train.

A run keeps their names so that they mean the same wherever and whenever it is resumed: paths are absolute, and a run
without a snapshot means its newest one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from arena.contexts import request_in
from arena.records import Sampler
from games.common.errors import UsageError
from games.registry import make_game
from games.spec import FreeText, Game, HasScripts, labels
from league.config import RunConfig
from league.config.load import run_roles, seat_roles
from league.population.players.engines import Engines
from league.population.players.hub import check_model
from league.population.players.outside import outside_engine
from league.population.players.player import Player, fixed_role, resolve
from league.population.players.remote import PREFIX, read_settings
from league.population.players.scripted import scripted_player
from league.population.storage.run_dir import Run, find_run
from roles.replies import read_free_text
from roles.role import Role, Roles

HF = "hf:"
EXPLOITER = "best_response:"


class FixedPlayers(NamedTuple):
    """The fixed players of a run's roles."""

    roles: Roles  # of all games of the run; a fixed role as its player is prompted
    engines: Mapping[str, Sampler]  # by the players' names


def fixed_players(roles: Roles, engines: Engines) -> FixedPlayers:
    """Return a run's fixed players, with the run's roles as they are played.

    Raises UsageError for a player that does not exist.
    """
    by_name: dict[str, Sampler] = {}
    played = dict(roles)
    for game, seats in roles.items():
        players = {role.seat: _player_of(role, engines) for role in seats if role.fixed}
        played[game] = tuple(fixed_role(role, players[role.seat]) if role.fixed else role for role in seats)
        by_name |= {seats[seat].policy: player.engine_of(seats[seat].policy) for seat, player in players.items()}
    return FixedPlayers(played, by_name)


def fixed_engine(name: str, roles: Roles, engines: Engines) -> Sampler | None:
    """Return the engine of a fixed player; None for any other player."""
    taken_roles = [role for seats in roles.values() for role in seats if role.fixed and role.policy == name]
    return _player_of(taken_roles[0], engines).engine_of(name) if taken_roles else None


def with_lasting_names(config: RunConfig) -> RunConfig:
    """Return the configuration of a new run with names of its fixed players that stay valid as long as the run.

    Raises UsageError, with the role named, for a player that does not exist or cannot take a role.
    """
    if not config.roles.player:
        return config
    roles = {f"{game}/{role.name}": role for game, seats in run_roles(config).items() for role in seats if role.fixed}
    try:
        lasting = {name: _lasting(config.roles.player[name], role) for name, role in roles.items()}
    except OSError as error:
        raise UsageError(f"roles.player: {error.filename} cannot be read ({error.strerror}).") from error
    return config.model_copy(update={"roles": config.roles.model_copy(update={"player": lasting})})


def check_fixed(roles: Roles, engines: Engines, *, ask_servers: bool = True) -> None:
    """Raise UsageError, with the role named, for a fixed player that cannot play its role.

    Players that are not models on this machine are asked for a reply; those behind servers only if ``ask_servers``.
    """
    for game, seats in roles.items():
        for role in (role for role in seats if role.fixed):
            if role.policy.startswith(PREFIX) and not ask_servers:
                continue
            if engine := outside_engine(role.policy, engines):
                player = resolve(role.policy, make_game(game).spec, engines)
                try:
                    _try(role.policy, engine, fixed_role(role, player), make_game(game))
                except UsageError as error:
                    raise UsageError(f"roles.player of {game}/{role.name}: {error}") from error


def _player_of(role: Role, engines: Engines) -> Player:
    """Return a role's fixed player."""
    return resolve(role.policy, make_game(role.game).spec, engines)


def _lasting(text: str, role: Role) -> str:
    """Return a player's name that depends neither on the present folder nor on another run's progress."""
    where = f"roles.player of {role.game}/{role.name}"
    if text.startswith(PREFIX):
        read_settings(text)
        return PREFIX + _absolute(text.removeprefix(PREFIX)) if text.endswith(".toml") else text
    if text.startswith(EXPLOITER):
        return EXPLOITER + _absolute(text.removeprefix(EXPLOITER))
    if text.startswith(HF):
        source = text.removeprefix(HF)
        check_model(source, f"{where} = {text!r}", adapters=True)
        return HF + _absolute(source) if Path(source).expanduser().exists() else text
    name, _, which = text.partition("@")
    path = None if scripted_player(text) else find_run(name)
    if path is not None:
        return _snapshot(text, Run(path), which, role, where)
    try:
        return resolve(text, make_game(role.game).spec, Engines()).label
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _snapshot(text: str, run: Run, which: str, role: Role, where: str) -> str:
    """Return the lasting name of a run's snapshot. Raises UsageError for a mixture or an unknown snapshot."""
    if which == "mixture" or "@" in str(run.path.resolve()):
        why = "a mixture is drawn again for each match" if which == "mixture" else "the path of its run has an @"
        raise UsageError(f"{where} = {text!r}: {why}. Name one snapshot of a run, RUN@SNAPSHOT.")
    role_there = seat_roles(run.config.roles, make_game(role.game).spec)[role.seat]
    if role_there.fixed:
        raise UsageError(
            f"{where} = {text!r}: in that run {role_there.game}/{role_there.name} was played by {role_there.policy}. "
            "Name that player itself."
        )
    [(snapshot, _)] = run.members(which, role_there.policy, role.game, role.seat)
    run.population.verify(snapshot)
    return f"{run.path.resolve()}@{snapshot.id}"


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().resolve())


def _try(name: str, engine: Sampler, role: Role, position: Game) -> None:
    """Request one reply of a player in its role, the first time that the seat acts in a match; nothing if it does not.

    The other seats take their first legal action, or use a script where free text is requested.
    """
    position.reset(0)
    rng = random.Random(0)
    while (seat := position.to_act()) is not None:
        actions = position.actions()
        form = actions.form if isinstance(actions, FreeText) else ""
        if seat == role.seat:
            engine.sample([request_in(name, role, position, rng)])
            return
        scripts = position.scripts() if isinstance(position, HasScripts) else {}
        if form and not scripts:
            return
        action = next(iter(scripts.values()))(rng) if form else labels(position)[0]
        read = read_free_text(actions, action) if isinstance(actions, FreeText) else action
        if read is None:
            return
        position.apply(read)
