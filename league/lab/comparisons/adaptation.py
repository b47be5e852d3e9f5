"""How quickly a player falls in with a stranger: what it earns after 0, 1, 2, … turns of its own with it in one match.

In a game of rounds, as ``signalling``, the ipd and other repeated games, a seat has a turn a round, so its n-th turn is
played with n - 1 rounds in context. What that turn earns is what the game pays the seat from it until its next turn.
After updates against the stranger (``further_training``) another player sits in each seating.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from arena.records import Episode
from games.common.errors import UsageError
from games.spec import GameSpec
from league.population.evaluation.head_to_head import A, play_scheduled, schedule
from league.population.players.player import Player
from league.theory.statistics import Estimate, clustered_mean

ROUNDS = (0, 1, 2, 4, 8)  # after which a player is measured


class Adaptation(NamedTuple):
    """What one player earns in a turn with a stranger, or in a whole match."""

    player: str
    rounds: int | None  # turns of its own before, in the same match; None: the whole match
    earned: Estimate  # by that turn, or by the match, in the game's units
    turns: int  # that were measured; of whole matches, a seat in each
    updates: int = 0  # of its weights against the stranger, before


class AdaptationMatches(NamedTuple):
    """The matches that are played, and what is measured of them."""

    rounds: Sequence[int] = ROUNDS
    matches: int = 600  # at least
    seed: int = 0
    whole: bool = False  # whether whole matches are, too
    on_match: Callable[[Episode], None] | None = None


class Earned(NamedTuple):
    """What a player earned in one seat of one match."""

    deal: int
    rewards: list[float]  # by its turns
    total: float  # the match's return


def adaptation(player: Player, stranger: Player, measure: AdaptationMatches = AdaptationMatches()) -> list[Adaptation]:  # noqa: B008
    """Return what a player's turns earn with a stranger, after so many of its own, over all seatings of equal deals.

    Raises UsageError for a game of one seat, and for numbers of rounds that no match reaches.
    """
    check_seats(player.spec)
    return rows_of(player, seats_played(player, stranger, measure), measure)


def check_seats(spec: GameSpec) -> None:
    """Raise UsageError for a game of one seat."""
    if spec.seats < 2:
        raise UsageError(f"{spec.alias} has one seat, so that nobody is met there. Choose a game of two or more.")


def seats_played(
    player: Player, stranger: Player, measure: AdaptationMatches, seating: tuple[int, ...] | None = None
) -> list[Earned]:
    """Play the scheduled matches, or those in one seating; return what the player earned in each of its seats."""
    players = player, stranger
    scheduled = [
        match for match in schedule(players, measure.matches, measure.seed) if seating in (None, match.seating)
    ]
    return [
        Earned(match.deal, [turn.reward for turn in episode.turns if turn.seat == seat], episode.returns[seat])
        for match, episode in zip(scheduled, play_scheduled(players, scheduled, measure.on_match), strict=True)
        for seat, side in enumerate(match.seating)
        if side == A
    ]


def rows_of(player: Player, played: Sequence[Earned], measure: AdaptationMatches, updates: int = 0) -> list[Adaptation]:
    """Return what a player's turns earned, and its whole matches.

    Raises UsageError for numbers of rounds that no match reaches.
    """
    spec, asked, most = player.spec, sorted(set(measure.rounds)), max(len(own.rewards) for own in played)
    if missing := [number for number in asked if number >= most]:
        reached = max((number for number in asked if number < most), default=0)
        raise UsageError(
            f"No match of {spec.alias} has a turn after {missing[0]} of the player's own; of those asked for, "
            f"{reached} is the last that is reached. Choose a game of more rounds, as signalling(rounds=9,form=1), or "
            "smaller --rounds."
        )
    # Of what one turn can pay only this is known: an equal share of the match's return, and what was seen.
    seen = [reward for own in played for reward in own.rewards]
    bounds = min(spec.min_return / most, 0.0, *seen), max(spec.max_return / most, 0.0, *seen)
    rows = []
    for number in asked:
        reached_it = [own for own in played if number < len(own.rewards)]
        rewards, deals = [own.rewards[number] for own in reached_it], [own.deal for own in reached_it]
        rows.append(Adaptation(player.label, number, clustered_mean(rewards, deals, bounds), len(rewards), updates))
    if measure.whole:
        bounds = spec.min_return, spec.max_return
        earned = clustered_mean([own.total for own in played], [own.deal for own in played], bounds)
        rows.append(Adaptation(player.label, None, earned, len(played), updates))
    return rows
