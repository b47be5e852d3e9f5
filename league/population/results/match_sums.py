"""Sums over stored matches, by line-up and by pair of players.

Matches of one deal share its luck, so every standard error is clustered by deal, as in
``league.population.evaluation.head_to_head``: with N values y_i in G deals and ȳ their mean,
Var(ȳ) = G/(G−1) Σ_deals (Σ_{i in deal} (y_i − ȳ))² / N² (Liang and Zeger 1986).

Everything is a few passes over whole columns, so a million matches take half a second. The order in which values
are added depends only on the matches: the same matches give the same figures, bit for bit, in whatever order they came.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.population.results.exact_leads import exact_leads, may_be_level
from league.population.results.match_columns import Columns, Floats, Ints


@dataclass(frozen=True, slots=True)
class Cells:
    """The results of every line-up that met, by seat, in the order of ``lineup``; C line-ups, S seats, N players.

    A score is a seat's share of the comparisons with the other seats: win 1, draw ½, loss 0; nan with one seat.
    """

    players: tuple[str, ...]  # sorted  # [N]
    lineup: Ints  # indices into players, by seat  # [C, S]
    n: Ints  # matches  # [C]
    deals: Ints  # different deals  # [C]
    returns: Floats  # means, in the game's units  # [C, S]
    returns_error: Floats  # standard errors, clustered by deal; nan with one deal  # [C, S]
    scores: Floats  # means  # [C, S]
    scores_error: Floats  # as returns_error  # [C, S]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The results of every two different players that met, in the order of (a, b); K pairs, N players, a < b.

    A match's lead is the mean return of a's seats less the mean of b's seats; its score is a's share of the comparisons
    of its seats with b's. The sign of the sum of its matches' leads decides who won a deal: if every seating was
    played, luck has cancelled ("duplicate" scoring, as in bridge). A deal is drawn if the sum is 0 without rounding:
    tenths and thirds count exactly (``league.population.results.exact_leads``).
    """

    players: tuple[str, ...]  # sorted  # [N]
    a: Ints  # index into players  # [K]
    b: Ints  # [K]
    n: Ints  # matches  # [K]
    deals: Ints  # different deals  # [K]
    lead: Floats  # mean a match, in the game's units  # [K]
    lead_error: Floats  # standard error, clustered by deal; nan with one deal  # [K]
    score: Floats  # mean a match  # [K]
    score_error: Floats  # as lead_error  # [K]
    won: Ints  # deals  # [K]
    drawn: Ints  # [K]
    lost: Ints  # [K]


class _Means(NamedTuple):
    """Means of groups of matches, and standard errors that are nan where a group has one deal."""

    mean: Floats  # [groups]
    error: Floats  # [groups]


class _Groups:
    """Matches in groups, in the order of the groups' keys, and in clusters: a group's matches of one deal."""

    def __init__(self, key: Ints, deal: Ints) -> None:
        """Take each match's group, any number, and the seed of its deal."""  # both [M]
        self._order = np.argsort(key, kind="stable")  # equal on every machine, and quick where pairs met in turn
        key, deal = key[self._order], deal[self._order]
        begins = _changes(key)
        self._groups = np.flatnonzero(begins)  # places in the order  # [groups]
        self.n = np.diff(self._groups, append=len(key))  # matches  # [groups]
        falls = np.flatnonzero((deal[1:] < deal[:-1]) & ~begins[1:])
        if len(falls):  # only groups whose deals are not in order yet are sorted: that takes longer than all else
            unsorted = np.unique(np.searchsorted(self._groups, falls, side="right") - 1)
            sizes = self.n[unsorted]
            places = np.repeat(self._groups[unsorted] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            sorting = np.lexsort((deal[places], key[places]))
            self._order[places], deal[places] = self._order[places][sorting], deal[places][sorting]
        self._clusters = np.flatnonzero(begins | _changes(deal))  # places in the order  # [clusters]
        self._groups_of_clusters = np.flatnonzero(begins[self._clusters])  # [groups]
        self.first = self._order[self._groups]  # a match of each group  # [groups]
        self.sizes = np.diff(self._clusters, append=len(key))  # matches  # [clusters]
        self.deals = np.diff(self._groups_of_clusters, append=len(self._clusters))  # [groups]

    def means(self, values: Floats) -> _Means:
        """Return the mean of ``values`` [M] in each group."""
        ordered = values[self._order]
        mean = np.add.reduceat(ordered, self._groups) / self.n
        off = np.add.reduceat(ordered - np.repeat(mean, self.n), self._clusters)
        spread = np.add.reduceat(off * off, self._groups_of_clusters)
        with np.errstate(invalid="ignore", divide="ignore"):  # one deal has no error
            error = np.sqrt(self.deals / (self.deals - 1.0) * spread) / self.n
        return _Means(mean, np.where(self.deals > 1, error, np.nan))

    def by_deal(self, values: Floats) -> Floats:
        """Return the sum of ``values`` [M] in each cluster."""
        return np.add.reduceat(values[self._order], self._clusters)

    def within(self, chosen: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Return the matches of the ``chosen`` clusters, and where among them each cluster begins."""
        sizes = self.sizes[chosen]
        return self._order[np.repeat(chosen, self.sizes)], np.cumsum(sizes) - sizes

    def count(self, chosen: NDArray[np.bool_]) -> Ints:
        """Return how many of the ``chosen`` clusters each group has."""
        return np.add.reduceat(chosen.astype(np.int64), self._groups_of_clusters)


def _changes(values: Ints) -> NDArray[np.bool_]:
    """Return where another value begins in ``values`` [M]; the first one does [M]."""
    changes = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def cells(columns: Columns) -> Cells:
    """Return the sums by line-up."""
    seats = columns.seated.shape[1]
    key = columns.seated[:, 0]
    for seat in range(1, seats):
        if seat > 1:  # all possible line-ups of many seats do not fit into 64 bits; those that met do
            key = np.unique(key, return_inverse=True)[1]
        key = key * len(columns.players) + columns.seated[:, seat]
    groups = _Groups(key, columns.deal)
    returns = [groups.means(columns.returns[:, seat]) for seat in range(seats)]
    scores = [groups.means(score) for score in _seat_scores(columns.returns)]
    return Cells(
        columns.players,
        columns.seated[groups.first],
        groups.n,
        groups.deals,
        np.stack([means.mean for means in returns], axis=1),
        np.stack([means.error for means in returns], axis=1),
        np.stack([means.mean for means in scores], axis=1),
        np.stack([means.error for means in scores], axis=1),
    )


def pairs(columns: Columns) -> Pairs:
    """Return the sums by two different players."""
    met = _meetings(columns)
    groups = _Groups(met.a * len(columns.players) + met.b, columns.deal[met.match])
    lead, score = groups.means(met.lead), groups.means(met.score)
    sign = _signs(columns, met, groups)
    return Pairs(
        columns.players,
        met.a[groups.first],
        met.b[groups.first],
        groups.n,
        groups.deals,
        lead.mean,
        lead.error,
        score.mean,
        score.error,
        *(groups.count(chosen) for chosen in (sign > 0, sign == 0, sign < 0)),
    )


class _Meetings(NamedTuple):
    """Every two different players of every match, a < b; Q of them."""

    match: Ints  # place in the columns  # [Q]
    a: Ints  # [Q]
    b: Ints  # [Q]
    lead: Floats  # [Q]
    score: Floats  # a's  # [Q]


def _meetings(columns: Columns) -> _Meetings:
    """Return who met whom, each two players once a match, whatever number of seats they held."""
    counted: list[tuple[Ints, Ints]] = []  # each two seats' players  # both [M]
    meetings = []
    for first, second in itertools.combinations(columns.seated.T, 2):
        low, high = np.minimum(first, second), np.maximum(first, second)
        new = low != high
        for earlier_low, earlier_high in counted:
            new &= (earlier_low != low) | (earlier_high != high)
        counted.append((low, high))
        match = np.flatnonzero(new)
        meetings.append(_Meetings(match, low[match], high[match], *_compared(columns, match, low[match], high[match])))
    if not meetings:
        nothing, none = np.zeros(0, np.int64), np.zeros(0)
        return _Meetings(nothing, nothing, nothing, none, none)
    return meetings[0] if len(meetings) == 1 else _Meetings(*map(np.concatenate, zip(*meetings, strict=True)))


def _signs(columns: Columns, met: _Meetings, groups: _Groups) -> Floats:
    """Return the sign of the sum of a's leads in each deal, without any rounding."""  # [clusters]
    total = groups.by_deal(met.lead)
    near = may_be_level(total, groups.sizes, columns.returns)
    sign, (places, starts) = np.sign(total), groups.within(near)
    leads = exact_leads(columns, met.match[places], met.a[places], met.b[places])
    sign[near] = np.sign(np.add.reduceat(leads, starts))
    return sign


def _compared(columns: Columns, match: Ints, a: Ints, b: Ints) -> tuple[Floats, Floats]:
    """Return a's lead over b, and its score, in each of some matches."""  # all [Q]
    returns, seated = columns.returns, columns.seated
    if len(match) < len(returns):  # not every match is of two different players
        returns, seated = returns[match], seated[match]
    if returns.shape[1] == 2:  # the same to the last bit, in a quarter of the time
        lead = np.where(seated[:, 0] == a, returns[:, 0] - returns[:, 1], returns[:, 1] - returns[:, 0])
        return lead, (np.sign(lead) + 1.0) / 2.0
    is_a, is_b = ([seats == player for seats in seated.T] for player in (a, b))
    points, comparisons = np.zeros(len(match)), np.zeros(len(match))
    for seat, opponent in itertools.permutations(range(returns.shape[1]), 2):
        meets = is_a[seat] & is_b[opponent]
        points += seat_points(returns, seat, opponent) * meets
        comparisons += meets
    return _mean_where(returns, is_a) - _mean_where(returns, is_b), points / comparisons


def _mean_where(returns: Floats, chosen: Sequence[NDArray[np.bool_]]) -> Floats:
    """Return each match's mean return over the chosen seats, of which there is at least one."""  # [M]
    seats = list(zip(returns.T, chosen, strict=True))
    return np.asarray(sum(gains * its for gains, its in seats) / sum(its.astype(np.float64) for _, its in seats))


def seat_points(returns: Floats, seat: int, opponent: int) -> Floats:
    """Return one seat's score against another: win 1, draw ½, loss 0."""  # [M]
    return (np.sign(returns[:, seat] - returns[:, opponent]) + 1.0) / 2.0


def _seat_scores(returns: Floats) -> list[Floats]:
    """Return each seat's score against all other seats, nan where there is none."""  # S times [M]
    seats = returns.shape[1]
    if seats == 1:
        return [np.full(len(returns), np.nan)]
    others = [[other for other in range(seats) if other != seat] for seat in range(seats)]
    return [
        np.stack([seat_points(returns, seat, other) for other in opponents]).sum(0) / len(opponents)
        for seat, opponents in enumerate(others)
    ]
