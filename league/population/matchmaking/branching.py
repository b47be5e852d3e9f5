"""Branching where it pays (ARPO, arXiv 2507.19849): the turns of played matches from which they are forked.

A rule scores every turn of the matches that were played. ``branch_points`` forks a match at its first turn whose score
reaches a bar, as far as a budget of replies goes. A fork takes what was played, written and opened up to its
branch point as it was (``arena.submatches.middle``), so that this is not computed again, and costs at most the
remaining turns, each with its retries, and what its own submatches cost.

Credit among forks is exact only if a branch point does not depend on what came after it, so it is a stopping time:
whether a match is forked at a turn depends on that match up to the turn and on the other half of the matches. Matches
are therefore divided into two halves, and the scores, the bar and the budget of each half come from the other one.

To add a rule, write its function here and its entry below; a plugin passes it to ``league.register_branching``. Its
own settings, if any, are ``branching.NAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean, pstdev
from typing import NamedTuple

from arena.records import Episode, MatchRequest, Turn
from arena.submatches import middle
from games.common.registry import Entry, Registry
from games.common.seeds import derive_seed
from league.config.matchmaking import BranchingConfig

Entropies = Callable[[Sequence[Turn]], list[float]]  # of the policies that replied, in nats
# A score of each turn of each match in the first list; 0: no branch there. Of these matches only what was known before
# a turn's reply may enter its score; of those in the second list, everything.
BranchRule = Callable[[Sequence[Episode], Sequence[Episode], Entropies, BranchingConfig], list[list[float]]]
NEARLY = 1.0 - 1e-9  # a score this near to the bar reaches it


def may_branch(episode: Episode, number: int) -> bool:
    """Return whether another reply of a match's turn would teach: a seat in training chose among several.

    A retry is no branch point, since a fork begins with the first attempt. Whether that was legal plays no part.
    """
    turn = episode.turns[number]
    retried = number > 0 and episode.turns[number - 1].action is None and episode.turns[number - 1].seat == turn.seat
    return episode.request.trained[turn.seat] and len(turn.legal) != 1 and not retried


def by_entropy(
    episodes: Sequence[Episode], others: Sequence[Episode], entropies: Entropies, _config: BranchingConfig
) -> list[list[float]]:
    """Branch where the policy is least certain: a turn's score is the entropy of its policy, in nats.

    It is 0 where another reply would teach nothing. Of a ``free`` reply only the surprisal is known, which depends on
    the reply itself: the score is its mean at the same turn of the same role and policy in the other matches. The paper
    (ARPO) looks at a rise of the entropy after a tool's answer; here turns are compared with each other.
    """
    known = _points(episodes, exact=True)
    exact = dict(zip(known, entropies([episodes[match].turns[number] for match, number in known]), strict=True))
    sampled = _points(others, exact=False)
    surprisals: dict[Seen, list[float]] = {}
    found = entropies([others[match].turns[number] for match, number in sampled])
    for (match, number), surprisal in zip(sampled, found, strict=True):
        surprisals.setdefault(_which_turn(others[match], number), []).append(surprisal)
    means = {which: fmean(values) for which, values in surprisals.items()}
    estimated = {
        (match, number): means.get(_which_turn(episodes[match], number), 0.0)
        for match, number in _points(episodes, exact=False)
    }
    scores = exact | estimated
    return [
        [scores.get((match, number), 0.0) for number in range(len(episode.turns))]
        for match, episode in enumerate(episodes)
    ]


def _points(episodes: Sequence[Episode], exact: bool) -> list[tuple[int, int]]:
    """Return possible branch points, as numbers of match and turn, whose replies have known chances, or have not."""
    return [
        (match, number)
        for match, episode in enumerate(episodes)
        for number, turn in enumerate(episode.turns)
        if may_branch(episode, number) and (turn.trace is None or turn.trace.mask is not None) == exact
    ]


def _which_turn(episode: Episode, number: int) -> Seen:
    """Return a key that is equal for turns with the same number, role and policy."""
    turn = episode.turns[number]
    earlier = sum(other.seat == turn.seat for other in episode.turns[:number])
    return episode.request.game, turn.role, turn.player, str(earlier)


def by_value_spread(
    episodes: Sequence[Episode], others: Sequence[Episode], _entropies: Entropies, _config: BranchingConfig
) -> list[list[float]]:
    """Branch where most is at stake: a turn's score is the standard deviation of returns after turns like it.

    It is in the game's units. Turns are alike if the same role of the same policy saw the same thing. Only the other
    matches' turns count: a match whose own return decided where it is branched would be credited for its luck. If an
    observation occurs in fewer than two of them, as in a game with many words, it is not a branch point.
    """
    returns: dict[Seen, list[float]] = {}
    for episode in others:
        for turn in episode.turns:
            returns.setdefault(_what_was_seen(episode, turn), []).append(episode.returns[turn.seat])

    @cache
    def spread(seen: Seen) -> float:
        return pstdev(returns[seen]) if seen in returns else 0.0

    return [
        [
            spread(_what_was_seen(episode, turn)) if may_branch(episode, number) else 0.0
            for number, turn in enumerate(episode.turns)
        ]
        for episode in episodes
    ]


Seen = tuple[str, ...]  # equal for turns that are alike


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


class ForkLimits(NamedTuple):
    """The limits of forks of one game."""

    replies: int  # most, in whole matches and forks together
    width: int  # forks of each branch point
    turns: int  # most of a match
    retries: int  # most of a turn


Scores = Callable[[Sequence[Episode], Sequence[Episode]], list[list[float]]]  # a rule with its settings


def branch_points(episodes: Sequence[Episode], scores: Scores, limits: ForkLimits) -> list[BranchPoint]:
    """Return the branch points of matches of one game: at most one a match, and none that depends on its future.

    The forks of all points together cost at most ``limits.replies`` less what the matches cost.
    """
    halves = episodes[::2], episodes[1::2]
    points: list[BranchPoint] = []
    for half, others in (halves, halves[::-1]):
        # Half of what is left for certain: how long the half's own matches became may not decide.
        longest = len(half) * most_replies(limits.turns, limits.retries)
        budget = (limits.replies - sum(len(episode.turns) for episode in others) - longest) // 2
        best = [
            (max(row), BranchPoint(episode, row.index(max(row))))
            for episode, row in zip(others, scores(others, others), strict=True)
            if row
        ]
        bar = min((score for score, _ in _affordable(best, budget, limits)), default=0.0) * NEARLY
        stops = [_first(episode, row, bar) for episode, row in zip(half, scores(half, others), strict=True)]
        points += [point for _, point in _affordable([stop for stop in stops if stop is not None], budget, limits)]
    return points


def _first(episode: Episode, scores: Sequence[float], bar: float) -> tuple[float, BranchPoint] | None:
    """Return a match's first turn whose score is positive and reaches the bar."""
    found = ((score, turn) for turn, score in enumerate(scores) if score > 0.0 and score >= bar)
    return next(((score, BranchPoint(episode, turn)) for score, turn in found), None)


def _affordable(
    scored: Sequence[tuple[float, BranchPoint]], budget: int, limits: ForkLimits
) -> list[tuple[float, BranchPoint]]:
    """Return the points of positive score whose forks the budget pays for, the best first."""
    paid = []
    for score, point in sorted(scored, key=lambda item: -item[0]):
        before = middle(*point)
        cost = limits.width * most_replies(limits.turns - len(before.prefix) - len(before.texts), limits.retries)
        if score > 0.0 and cost <= budget:
            paid.append((score, point))
            budget -= cost
    return paid


def fork_requests(points: Sequence[BranchPoint], width: int, run_seed: int, first_index: int) -> list[MatchRequest]:
    """Return ``width`` matches from each point, with indices from ``first_index`` on and seeds of their own."""
    requests: list[MatchRequest] = []
    for point in points:
        origin = point.episode.request
        for draw in range(width):
            seed = derive_seed(run_seed, "fork", origin.index, point.turn, draw)
            requests.append(
                middle(*point)._replace(
                    index=first_index + len(requests), sample_seed=seed, fork=(origin.index, point.turn)
                )
            )
    return requests
