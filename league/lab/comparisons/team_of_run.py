"""The team of a run: who plays which role, these players before training, and the players to compare the team with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from games.aliases import full_name, short_name
from games.common.errors import UsageError, unknown_name
from games.registry import make_game, with_submatches
from games.spec import GameSpec
from league.config.load import seat_roles
from league.lab.comparisons.team_lineups import Place, Team
from league.population.storage.run_dir import Run, find_run
from league.training.board.metrics_log import read_metrics

GENERATED = "reply_tokens"  # the metric of an iteration's tokens


class LonePlayer(NamedTuple):
    """A player that does the team's whole work alone."""

    player: str
    trained_tokens: float | None  # generated in training; None: not known


def team_game(run: Run, named: str | None) -> GameSpec:
    """Return the facts of a run's team game: the ``named`` one, or the only one.

    Raises UsageError for a run without a game whose roles work together, with several, or without the named one.
    """
    specs = {name: make_game(name).spec for name in run.config.games}
    fit = [name for name, spec in specs.items() if not (reason := _why_no_team(spec))]
    if named is not None:
        name = full_name(named)
        if name not in specs:
            raise unknown_name(f"game of {run.path}", named, [short_name(game) for game in specs])
        if reason := _why_no_team(specs[name]):
            raise UsageError(f"{reason} Name a game whose roles work together.")
        return specs[name]
    if not fit:
        raise UsageError(
            f"{run.path} has not trained any game whose roles work together: it has "
            f"{', '.join(map(short_name, specs))}."
        )
    if len(fit) > 1:
        raise UsageError(
            f"{run.path} has several games whose roles work together. Choose one with --game: "
            f"{', '.join(map(short_name, fit))}."
        )
    return specs[fit[0]]


def team_of(run: Run, spec: GameSpec) -> Team:
    """Return a run's newest team in a game, and the first snapshot of each policy that has more than one."""
    roles, players, untrained = dict[Place, str](), dict[Place, str](), dict[Place, str]()
    for game in with_submatches([spec.name]):
        for role in seat_roles(run.config.roles, make_game(game).spec):
            position = game, role.seat
            roles[position], players[position] = role.name, role.policy
            if role.fixed:
                continue
            newest, first = run.population.newest(role.policy), run.population.all(role.policy)[0]
            players[position] = f"{run.path}@{newest.id}"
            if first.id != newest.id:
                untrained[position] = f"{run.path}@{first.id}"
    return Team(spec, _distinct(roles), players, untrained)


def trained_apart(texts: Sequence[str], team: Team) -> dict[Place, str]:
    """Return who takes roles by ``ROLE=PLAYER``; a player without a role takes all roles that no other is named for.

    Raises UsageError for an unknown role, a role that is named twice, and two players without a role.
    """
    players: dict[Place, str] = {}
    others: list[str] = []
    for text in texts:
        named = _place(text, team)
        if named is None:
            others.append(text)
            continue
        position, player = named
        if position in players:
            raise UsageError(f"--apart {text}: {team.roles[position]} is named twice. Name one player for it.")
        players[position] = player
    if len(others) > 1:
        raise UsageError(
            f"--apart {' '.join(others)}: which roles do they play? Write ROLE=RUN; the roles are "
            f"{', '.join(team.roles.values())}."
        )
    default = others[0] if others else None
    return {position: name for position in team.roles if (name := players.get(position, default)) is not None}


def lone_player(text: str, team: Team, tokens: float | None) -> LonePlayer:
    """Return who plays alone: of a run, the snapshot whose training had generated nearest to ``tokens`` tokens.

    Raises UsageError where the team's game names no game for one player.
    """
    game = team.spec.alone
    if not game:
        raise UsageError(
            f"{short_name(team.spec.name)} names no game in which one player does the whole team's work, so --alone "
            "cannot be measured. Leave it out."
        )
    path = None if "@" in text or ":" in text else find_run(text)
    if path is None:
        return LonePlayer(text, None)
    run = Run(path)
    (role,) = seat_roles(run.config.roles, make_game(game).spec)
    snapshots = run.population.all(role.policy) or [run.population.newest(role.policy)]
    generated = {snapshot.id: generated_tokens(run, snapshot.step) for snapshot in snapshots}
    nearest = snapshots[-1].id
    if tokens is not None:
        nearest = min(generated, key=lambda identity: abs((generated[identity] or 0.0) - tokens))
    return LonePlayer(f"{run.path}@{nearest}", generated[nearest])


def generated_tokens(run: Run, step: int) -> float | None:
    """Return how many tokens all seats of a run had generated after ``step`` iterations; None if not recorded."""
    lines = [line for line in read_metrics(run.path) if line["iteration"] <= step and GENERATED in line]
    return float(sum(line[GENERATED] for line in lines)) if lines else None


def team_tokens(run: Run, team: Team) -> float | None:
    """Return how many tokens the training of a team had generated up to its newest snapshot."""
    newest = [snapshot.step for snapshot in run.population.all() if f"{run.path}@{snapshot.id}" in _names(team)]
    return generated_tokens(run, max(newest)) if newest else None


def _names(team: Team) -> set[str]:
    return set(team.players.values())


def _why_no_team(spec: GameSpec) -> str:
    """Return why a game has no team with distinguishable roles; "" if it has one."""
    if spec.competitive:
        return f"In {spec.alias} what one seat wins the others lose, so its roles do not work together."
    if spec.seats < 2 and not spec.submatch_games:
        return f"{spec.alias} has one role, so there is no team."
    return ""


def _place(text: str, team: Team) -> tuple[Place, str] | None:
    """Return the role and the player of ``ROLE=PLAYER``; None for a player alone."""
    for position, role in team.roles.items():
        for name in (role, f"{position[0]}/{role}", f"{short_name(position[0])}/{role}"):
            if text.startswith(f"{name}="):
                return position, text.removeprefix(f"{name}=")
    name, equals, _ = text.partition("=")
    if not equals or any(mark in name for mark in ":/@"):  # an equal sign in the player's own name, as in a folder's
        return None
    raise unknown_name("role of the team", name, team.roles.values())


def _distinct(roles: dict[Place, str]) -> dict[Place, str]:
    """Return the roles' names, with the game before those that are in several games."""
    repeated = _repeated(roles.values())
    return {position: f"{position[0]}/{name}" if name in repeated else name for position, name in roles.items()}


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}
