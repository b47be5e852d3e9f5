"""The branch points that a budget of replies pays for, and the matches that go on from there.

A fork takes the actions up to its branch point as played (``MatchRequest.prefix``), so that nothing of them is computed
again, and costs at most the turns that are left, each with its retries. Points are taken by falling score, one a match,
as long as the dearest case of all of them stays within the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arena.records import Episode, MatchRequest
from games.common.seeds import derive_seed


class BranchPoint(NamedTuple):
    """A turn that is played on from again."""

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
    points, taken = list[BranchPoint](), set[int]()
    for _, number, turn in ranked:
        point = BranchPoint(episodes[number], turn)
        cost = width * most_replies(turns - len(prefix_of(point)), retries)
        if number not in taken and cost <= left:
            taken.add(number)
            points.append(point)
            left -= cost
    return points


def prefix_of(point: BranchPoint) -> tuple[str, ...]:
    """Return the actions of all seats before a branch point, those that its match began with too."""
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
                    start="",  # the stored start is that of the whole match
                    fork=(origin.index, point.turn),
                )
            )
    return requests
