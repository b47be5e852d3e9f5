"""Branching where it pays (ARPO, arXiv 2507.19849): the turns of played matches from which they are forked.

A rule scores every turn of the matches that were played; ``choose`` takes the best that a budget of replies pays for.
A fork takes the actions up to its branch point as played (``MatchRequest.prefix``), so that they are not computed
again, and costs at most the remaining turns, each with its retries. Points are taken by falling score, one a match, as
long as their worst-case cost together stays within the budget.

To add a rule, write its function here and its entry below; a plugin passes it to ``league.register_branching``. Its
own settings, if any, are ``branching.NAME``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from statistics import pstdev
from typing import NamedTuple

from arena.records import Episode, MatchRequest, Turn
from games.common.registry import Entry, Registry
from games.common.seeds import derive_seed
from league.config.matchmaking import BranchingConfig

Entropies = Callable[[Sequence[Turn]], list[float]]  # of the policies that replied, in nats
# A score of each turn of each match; 0: no branch there.
BranchRule = Callable[[Sequence[Episode], Entropies, BranchingConfig], list[list[float]]]


def may_branch(episode: Episode, turn: Turn) -> bool:
    """Return whether another reply of this turn would teach: a seat in training chose among several."""
    return episode.request.trained[turn.seat] and turn.action is not None and len(turn.legal) != 1


def by_entropy(episodes: Sequence[Episode], entropies: Entropies, _config: BranchingConfig) -> list[list[float]]:
    """Branch where the policy is least certain: a turn's score is the entropy of its policy, in nats.

    It is 0 where another reply would teach nothing. The paper (ARPO) looks at a rise of the entropy after a tool's
    answer; here turns are compared with each other.
    """
    turns = [turn for episode in episodes for turn in episode.turns if may_branch(episode, turn)]
    scores = iter(entropies(turns))
    return [[next(scores) if may_branch(episode, turn) else 0.0 for turn in episode.turns] for episode in episodes]


def by_value_spread(episodes: Sequence[Episode], _entropies: Entropies, _config: BranchingConfig) -> list[list[float]]:
    """Branch where most is at stake: a turn's score is the standard deviation of returns after turns like it.

    It is in the game's units. Turns are alike if the same role of the same policy saw the same. Only other
    matches' turns count: a match whose own return decided where it is branched would be credited for its luck. If an
    observation occurs only once, as in a game with many words, its spread is unknown, and it is not a branch point.
    """
    returns: dict[Seen, Counter[float]] = {}
    returns_by_match = [_returns_by_turn(episode) for episode in episodes]
    for of_match in returns_by_match:
        for seen, paid in of_match.items():
            returns.setdefault(seen, Counter()).update(paid)

    @cache
    def spread(seen: Seen, left_out: tuple[float, ...]) -> float:
        others = returns[seen] - Counter(left_out)
        return pstdev(others.elements()) if others else 0.0

    return [
        [
            spread(_what_was_seen(episode, turn), tuple(of_match[_what_was_seen(episode, turn)]))
            if may_branch(episode, turn)
            else 0.0
            for turn in episode.turns
        ]
        for episode, of_match in zip(episodes, returns_by_match, strict=True)
    ]


Seen = tuple[str, ...]  # equal for turns that are alike


def _returns_by_turn(episode: Episode) -> dict[Seen, list[float]]:
    """Return the seats' returns of a match's turns, by what was seen at each turn."""
    returns: dict[Seen, list[float]] = {}
    for turn in episode.turns:
        returns.setdefault(_what_was_seen(episode, turn), []).append(episode.returns[turn.seat])
    return returns


def _what_was_seen(episode: Episode, turn: Turn) -> Seen:
    return episode.request.game, turn.role, turn.player, turn.observation


BRANCHING_RULES: Registry[Entry[BranchRule]] = Registry(
    "branching",
    "branching rule",
    Entry,
    "branching.rule",
    {"entropy": Entry(by_entropy), "value_spread": Entry(by_value_spread)},
    reserved=BranchingConfig.model_fields,
)
register = BRANCHING_RULES.register


class BranchPoint(NamedTuple):
    """A turn from which a match is forked."""

    episode: Episode
    turn: int  # how many of the match's turns come before


def most_replies(turns: int, retries: int) -> int:
    """Return how many replies ``turns`` turns can take, if each may be refused ``retries`` times."""
    return turns * (1 + retries)


def choose(
    episodes: Sequence[Episode], scores: Sequence[Sequence[float]], budget: int, width: int, turns: int, retries: int
) -> list[BranchPoint]:
    """Return the branch points, best first, of matches of a game of at most ``turns`` turns.

    ``width`` forks of each point cost at most ``budget`` replies less those of ``episodes``.
    """
    left = budget - sum(len(episode.turns) for episode in episodes)
    ranked = sorted(
        (-score, number, turn) for number, row in enumerate(scores) for turn, score in enumerate(row) if score > 0.0
    )
    points, branched = list[BranchPoint](), set[int]()
    for _, number, turn in ranked:
        point = BranchPoint(episodes[number], turn)
        cost = width * most_replies(turns - len(prefix_of(point)), retries)
        if number not in branched and cost <= left:
            branched.add(number)
            points.append(point)
            left -= cost
    return points


def prefix_of(point: BranchPoint) -> tuple[str, ...]:
    """Return the actions of all seats before a branch point, including those with which its match began."""
    played = [turn.action for turn in point.episode.turns[: point.turn] if turn.action is not None]
    return point.episode.request.prefix + tuple(played)


def fork_requests(points: Sequence[BranchPoint], width: int, run_seed: int, first_index: int) -> list[MatchRequest]:
    """Return ``width`` matches from each point, with indices from ``first_index`` on and seeds of their own."""
    requests: list[MatchRequest] = []
    for point in points:
        origin = point.episode.request
        for draw in range(width):
            seed = derive_seed(run_seed, "fork", origin.index, point.turn, draw)
            requests.append(
                origin._replace(
                    index=first_index + len(requests),
                    sample_seed=seed,
                    branch=(),
                    prefix=prefix_of(point),
                    start="",  # the stored start belongs to the whole match
                    fork=(origin.index, point.turn),
                )
            )
    return requests
