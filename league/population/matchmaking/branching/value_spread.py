"""Branch where most is at stake: a turn's score is the standard deviation of what came of turns like it.

Turns are alike if the same role of the same policy saw the same. Where an observation comes only once, as in a game
with many words, nothing is known of its spread, and it is no branch point.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import pstdev

from arena.records import Episode, Turn
from league.population.matchmaking.branching.scores import Entropies, may_branch


def scores(episodes: Sequence[Episode], _entropies: Entropies) -> list[list[float]]:
    """Return the spread of the seat's returns after each turn, in the game's units; 0 where nothing can be known."""
    returns: dict[tuple[str, ...], list[float]] = {}
    for episode in episodes:
        for turn in episode.turns:
            returns.setdefault(_key(episode, turn), []).append(episode.returns[turn.seat])
    spreads = {key: pstdev(found) for key, found in returns.items()}
    return [
        [spreads[_key(episode, turn)] if may_branch(episode, turn) else 0.0 for turn in episode.turns]
        for episode in episodes
    ]


def _key(episode: Episode, turn: Turn) -> tuple[str, ...]:
    return episode.request.game, turn.role, turn.player, turn.observation
