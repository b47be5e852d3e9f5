"""Branch where most is at stake: a turn's score is the standard deviation of what came of turns like it.

Turns are alike if the same role of the same policy saw the same. Only those of other matches count: a match whose own
return decided where it is branched would be credited for its luck. Where an observation comes only once, as in a game
with many words, nothing is known of its spread, and it is no branch point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from statistics import pstdev

from arena.records import Episode, Turn
from league.population.matchmaking.branching.scores import Entropies, may_branch

Key = tuple[str, ...]  # equal for turns that are alike


def scores(episodes: Sequence[Episode], _entropies: Entropies) -> list[list[float]]:
    """Return the spread of the seat's returns after turns like each in other matches, in the game's units.

    0 where nothing can be known.
    """
    returns: dict[Key, Counter[float]] = {}
    own = [_returns(episode) for episode in episodes]
    for of_match in own:
        for key, paid in of_match.items():
            returns.setdefault(key, Counter()).update(paid)

    @cache
    def spread(key: Key, left_out: tuple[float, ...]) -> float:
        others = returns[key] - Counter(left_out)
        return pstdev(others.elements()) if others else 0.0

    return [
        [
            spread(_key(episode, turn), tuple(of_match[_key(episode, turn)])) if may_branch(episode, turn) else 0.0
            for turn in episode.turns
        ]
        for episode, of_match in zip(episodes, own, strict=True)
    ]


def _returns(episode: Episode) -> dict[Key, list[float]]:
    """Return the return of the seat of each turn of a match, by what it is like."""
    found: dict[Key, list[float]] = {}
    for turn in episode.turns:
        found.setdefault(_key(episode, turn), []).append(episode.returns[turn.seat])
    return found


def _key(episode: Episode, turn: Turn) -> Key:
    return episode.request.game, turn.role, turn.player, turn.observation
