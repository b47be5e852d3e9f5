"""Stored matches as results for the payoff table, bit for bit the same as from ``payoffs.summarise``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from league.population.results.match_columns import Columns, Floats, Ints, Origins
from league.population.results.match_sums import seat_points
from league.population.results.payoffs import Result


def results(game: str, columns: Columns, origins: Origins) -> Iterator[Result]:
    """Yield what ``payoffs.summarise`` gives for each iteration's matches of one game, oldest first."""
    iterations, when = np.unique(origins.iteration, return_inverse=True)
    names, role = _roles(origins, when, len(iterations))
    sight = _sightings(columns, role[when])
    number = max(len(columns.players), 1)
    key = (when[sight.match] * number + sight.player) * number + sight.opponent
    _, first, group = np.unique(key * len(names) + sight.role, return_index=True, return_inverse=True)
    gain = columns.returns[sight.match, sight.seat]
    totals = _counted(group, gain, sight.score)
    seeds, deal = np.unique(columns.deal, return_inverse=True)
    clusters, cluster = np.unique(group * max(len(seeds), 1) + deal[sight.match], return_inverse=True)
    n, gains, scores = _counted(cluster, gain, sight.score)
    of_cluster = clusters // max(len(seeds), 1)
    products = (gains * gains, n * n, n * gains, scores * scores, n * scores)
    squares = [np.bincount(of_cluster, values) for values in products]
    rows = zip(*(values.tolist() for values in (*totals, *squares)), first.tolist(), strict=True)
    for matches, total, score, gain2, matches2, matches_gain, score2, matches_score, at in rows:
        player, opponent = columns.players[sight.player[at]], columns.players[sight.opponent[at]]
        role_name = names[sight.role[at]]
        iteration = int(origins.iteration[sight.match[at]])
        by_deal = (int(matches2), matches_gain, score2, matches_score)
        yield Result(player, opponent, game, role_name, matches, total, gain2, score, iteration, *by_deal)


def _counted(group: Ints, gain: Floats, score: Floats) -> tuple[Ints, Floats, Floats]:
    """Return each group's number of sightings, sum of returns, and sum of scores."""  # all [groups]
    sums = [np.asarray(np.bincount(group, values), np.float64) for values in (gain, score)]
    return np.bincount(group), sums[0], sums[1]


class _Sightings(NamedTuple):
    """A seat that met an opponent in a match, whatever number of seats that one held; Q of them."""

    match: Ints  # place in the columns  # [Q]
    seat: Ints  # [Q]
    player: Ints  # [Q]
    opponent: Ints  # [Q]
    role: Ints  # [Q]
    score: Floats  # [Q]


def _sightings(columns: Columns, role: Ints) -> _Sightings:
    """Return who met whom, match by match and seat by seat: as ``summarise`` adds them up.

    ``role`` [M, S] is a number for the role of each seat.
    """
    matches, seats = columns.seated.shape
    found = []
    for seat, other in itertools.permutations(range(seats), 2):
        alike = {third: columns.seated[:, third] == columns.seated[:, other] for third in range(seats) if third != seat}
        earlier = [same for third, same in alike.items() if third < other]
        match = np.flatnonzero(~np.any(earlier, axis=0)) if earlier else np.arange(matches)
        points = np.sum([same * seat_points(columns.returns, seat, third) for third, same in alike.items()], axis=0)
        score = points[match] / np.sum(list(alike.values()), axis=0)[match]
        found.append((match, np.full(len(match), seat), np.full(len(match), other), score))
    if not found:
        nothing = np.zeros(0, np.int64)
        return _Sightings(nothing, nothing, nothing, nothing, nothing, np.zeros(0))
    matched, seat_of, other_of, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((seat_of, matched))
    at, by, to = matched[order], seat_of[order], other_of[order]
    return _Sightings(at, by, columns.seated[at, by], columns.seated[at, to], role[at, by], scores[order])


def _roles(origins: Origins, when: Ints, iterations: int) -> tuple[list[str], Ints]:
    """Return role names, sorted, and the role of each seat in each iteration as an index into them.  # [I, S]

    It is the role in the latest match in which the seat had a turn. ``when`` is each match's iteration, from 0.  # [M]
    """
    roles_by_iteration = [[f"seat {seat}" for seat in range(len(origins.casts[0].roles))] for _ in range(iterations)]
    for seat in range(len(origins.casts[0].roles)):
        spoke = np.array([cast.roles[seat] is not None for cast in origins.casts])[origins.cast]
        latest = dict(zip(when[spoke].tolist(), origins.cast[spoke].tolist(), strict=True))
        for iteration, cast in latest.items():
            roles_by_iteration[iteration][seat] = str(origins.casts[cast].roles[seat])
    names = sorted({name for roles in roles_by_iteration for name in roles})
    return names, np.array([[names.index(name) for name in roles] for roles in roles_by_iteration])
