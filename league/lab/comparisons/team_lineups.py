"""Line-ups of a team: the team itself, and the team with roles played by others, all on the same deals.

A role is replaced by its untrained self or by a stand-in, two roles are swapped between their players, roles are taken
by players that were trained apart, or one player does the whole work in the game that the team's game names for it
(``GameSpec.alone``). Every line-up plays every deal once, with the same seed for the players' draws, so their
differences are paired by deal.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

from arena.records import Episode, MatchRequest, flatten_episodes
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import GameSpec
from league.population.players.engines import Engines
from league.population.players.player import Player, fixed_role, resolve
from league.population.storage.identity import with_notes

Place = tuple[str, int]  # a game of the team and a seat of it


class LineUpKind(StrEnum):
    """How a line-up differs from the team."""

    TEAM = "team"
    UNTRAINED = "untrained"
    STAND_IN = "stand-in"
    SWAPPED = "swapped"
    APART = "apart"
    ALONE = "alone"


class Team(NamedTuple):
    """Who plays which role; positions are in the order of the games, the main one first, and of their seats."""

    spec: GameSpec  # of the main game
    roles: Mapping[Place, str]  # their names
    players: Mapping[Place, str]  # as a user writes them
    untrained: Mapping[Place, str]  # the same players before training, if there are any


class LineUp(NamedTuple):
    """Who plays which role in a line-up."""

    kind: LineUpKind
    words: str  # a short description
    game: str
    players: Mapping[Place, str]
    role: Place | None = None  # the one that is replaced; None: none or several


class PlayedLineUp(NamedTuple):
    """The results of a line-up."""

    line_up: LineUp
    returns: tuple[float, ...]  # the mean over the seats of the main game, by deal  # [deals]
    tokens: float | None  # in its replies, a match; None: nobody's replies have tokens


def line_ups(
    team: Team, stand_ins: Sequence[str] = ("random",), apart: Mapping[Place, str] | None = None, alone: str = ""
) -> list[LineUp]:
    """Return the team and the line-ups to compare it with; ``alone``, if named, plays the game of one player."""
    game = team.spec.name
    lineups = [LineUp(LineUpKind.TEAM, "as it is", game, team.players)]
    for position, role in team.roles.items():
        if position in team.untrained:
            words = f"{role}: untrained"
            changed = {**team.players, position: team.untrained[position]}
            lineups.append(LineUp(LineUpKind.UNTRAINED, words, game, changed, position))
        for name in stand_ins:
            changed = {**team.players, position: name}
            lineups.append(LineUp(LineUpKind.STAND_IN, f"{role}: {name}", game, changed, position))
    for first, second in itertools.combinations(team.roles, 2):
        if team.players[first] != team.players[second]:
            swapped = {**team.players, first: team.players[second], second: team.players[first]}
            words = f"{team.roles[first]} and {team.roles[second]} swapped"
            lineups.append(LineUp(LineUpKind.SWAPPED, words, game, swapped))
    if apart:
        names = ", ".join(team.roles[position] for position in apart)
        words = "trained apart" if len(apart) == len(team.roles) else f"{names}: trained apart"
        lineups.append(LineUp(LineUpKind.APART, words, game, {**team.players, **apart}))
    if alone:
        lineups.append(LineUp(LineUpKind.ALONE, "one alone", team.spec.alone, {(team.spec.alone, 0): alone}))
    return lineups


def play_line_up(
    line_up: LineUp,
    team: Team,
    deals: int,
    seed: int,
    engines: Engines,
    on_match: Callable[[Episode], None] | None = None,
) -> PlayedLineUp:
    """Play every deal once. Raises UsageError for a player that does not exist, or cannot play its role."""
    player = seated(line_up, team, engines)
    by_name = player.engines()
    roles = {part.spec.name: part.roles for part in (player, *player.team)}
    episodes = play(
        with_notes([_request(player, team.spec.name, deal, seed) for deal in range(deals)], dict(player.kept)),
        roles_of=roles.__getitem__,
        engine_of=by_name.__getitem__,
        make_game=make_game,
        on_episode=on_match,
    )
    return PlayedLineUp(line_up, tuple(fmean(episode.returns) for episode in episodes), _tokens(episodes))


def seated(line_up: LineUp, team: Team, engines: Engines) -> Player:
    """Return the line-up as one player, whose seats, in submatches too, are played by its members."""
    players = [resolve(name, make_game(line_up.game).spec, engines) for name in dict.fromkeys(line_up.players.values())]
    of_game = {(member.label, part.spec.name): part for member in players for part in (member, *member.team)}
    by_name = tuple({name: engine for member in players for name, engine in member.engines().items()}.items())
    parts = []
    for part in (players[0], *players[0].team):
        seats = [of_game[line_up.players[part.spec.name, seat], part.spec.name] for seat in range(part.spec.seats)]
        named = [fixed_role(role, member) for role, member in zip(part.roles, seats, strict=True)]
        roles = tuple(
            role.model_copy(update={"name": team.roles.get((role.game, role.seat), role.name)}) for role in named
        )
        members = tuple(member.members[seat] for seat, member in enumerate(seats))
        kept = tuple({name: notes for member in seats for name, notes in member.kept}.items())
        parts.append(Player(line_up.words, part.spec, part.engine, roles, members, others=by_name, kept=kept))
    return replace(parts[0], team=tuple(parts[1:]))


def _request(player: Player, team_game: str, deal: int, seed: int) -> MatchRequest:
    """Return the match on a deal, whose seeds are the same for every line-up."""
    rng = random.Random(derive_seed(seed, "members", team_game, deal))
    return MatchRequest(
        index=deal,
        game=player.spec.name,
        deal_seed=derive_seed(seed, "deal", team_game, deal),
        sample_seed=derive_seed(seed, "sample", team_game, deal),
        players=tuple(player.draw(seat, rng) for seat in range(player.spec.seats)),
        trained=(False,) * player.spec.seats,
        rule="team",
        cast=player.cast(rng),
    )


def _tokens(episodes: Sequence[Episode]) -> float | None:
    """Return the mean number of tokens in all replies of a match and its submatches; None without any tokens."""
    traces = [turn.trace for episode in flatten_episodes(episodes) for turn in episode.turns]
    counts = [len(trace.reply_ids) for trace in traces if trace is not None]
    return sum(counts) / len(episodes) if counts else None
