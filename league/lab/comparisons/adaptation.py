"""How quickly a player falls in with a stranger: what it earns after 0, 1, 2, … turns of its own with it in one match.

In a game of rounds, as ``signalling``, the ipd and other repeated games, a seat has a turn a round, so its n-th turn is
played with n - 1 rounds in context. What that turn earns is what the game pays the seat from it until its next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from arena.records import Episode
from games.common.errors import UsageError
from league.population.evaluation.head_to_head import A, play_scheduled, schedule
from league.population.players.player import Player
from league.theory.statistics import Estimate, clustered_mean

ROUNDS = (0, 1, 2, 4, 8)  # after which a player is measured


class Adaptation(NamedTuple):
    """What one player earns in a turn with a stranger."""

    player: str
    rounds: int  # turns of its own before, in the same match
    earned: Estimate  # by that turn, in the game's units
    turns: int  # that were measured


def adaptation(
    player: Player,
    stranger: Player,
    rounds: Sequence[int] = ROUNDS,
    matches: int = 600,
    seed: int = 0,
    on_match: Callable[[Episode], None] | None = None,
) -> list[Adaptation]:
    """Return what a player's turns earn with a stranger, after so many of its own, over all seatings of equal deals.

    Raises UsageError for a game of one seat, and for numbers of rounds that no match reaches.
    """
    spec = player.spec
    if spec.seats < 2:
        raise UsageError(f"{spec.alias} has one seat, so that nobody is met there. Choose a game of two or more.")
    scheduled = schedule((player, stranger), matches, seed)
    played = [
        (match.deal, [turn.reward for turn in episode.turns if turn.seat == seat])
        for match, episode in zip(scheduled, play_scheduled((player, stranger), scheduled, on_match), strict=True)
        for seat, side in enumerate(match.seating)
        if side == A
    ]
    asked, most = sorted(set(rounds)), max(len(own) for _, own in played)
    if missing := [number for number in asked if number >= most]:
        reached = max((number for number in asked if number < most), default=0)
        raise UsageError(
            f"No match of {spec.alias} has a turn after {missing[0]} of the player's own; of those asked for, "
            f"{reached} is the last that is reached. Choose a game of more rounds, as signalling(rounds=9,form=1), or "
            "smaller --rounds."
        )
    # Of what one turn can pay only this is known: an equal share of the match's return, and what was seen.
    seen = [reward for _, own in played for reward in own]
    bounds = min(spec.min_return / most, 0.0, *seen), max(spec.max_return / most, 0.0, *seen)
    rows = []
    for number in asked:
        deals, rewards = zip(*[(deal, own[number]) for deal, own in played if number < len(own)], strict=True)
        rows.append(Adaptation(player.label, number, clustered_mean(rewards, deals, bounds), len(rewards)))
    return rows
