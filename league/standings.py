"""One game's standings, from its stored matches: who is how good, how sure that is, and what no rating can say.

Players are ranked by Elo (``league.elo``), beside which stand the online ratings, Nash averaging with the
meta-strategy, the payoffs of all pairs, cycles, and who should play whom next. Policies that are still
learning are left out: their results are those of many players.

A pair's margin is half of what one earns more than the other in the matches that both are in: in a zero-sum game
of two its mean return. In other games mean returns say more, and are told beside.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.errors import unknown_name
from games.spec import GameSpec, Utility
from league.cycles import Cycle, find_cycles
from league.diversity import effective_size
from league.elo import Elo, elo
from league.match_store import Cells, MatchStore, Pairs
from league.matchmaking.informative import informative
from league.meta_solvers import META_SOLVERS, NashAverage
from league.meta_solvers.double_oracle import nash_average_of_many, nash_of_many
from league.ratings import Ratings, Skill
from league.standings_matrix import Matrix, RoleResult, payoff_matrix, role_results

Floats = NDArray[np.float64]

ADVISED = 12  # pairs that should play next
WORTH = 0.05  # of the most informative pair's weight; what is below is not worth a deal
BY_ROLE = 200  # players; for more, to add up all line-ups takes as long as all else


class Line(NamedTuple):
    """What is known of one player."""

    player: str
    elo: float  # points
    elo_error: float  # its standard error
    apart: int  # 0 for all who can be compared with the leader; else the number of their component
    skill: Skill | None  # the online rating; None if never rated
    by_role: dict[str, Skill]  # the online rating in each role, relative to the anchors there
    nash: float  # mean margin against the equilibrium of greatest entropy: 0 for those in it, else below
    weight: float  # in the meta-strategy
    matches: int  # against others
    margin: float  # mean of its margins over those it met  # game's units


class Meeting(NamedTuple):
    """A pair that should play."""

    a: str
    b: str
    deals: int  # so far
    margin: float | None  # a's so far, in the game's units; None if they never met
    weight: float  # as ``informative`` says, in the game's units


@dataclass(frozen=True, slots=True, eq=False)
class GameStandings:
    """All of one game. A game of cooperation has no ranks: nobody wins it."""

    spec: GameSpec
    matches: int  # all that are stored
    lines: list[Line]  # the best first  # [N]
    lead: tuple[float, float] | None  # Elo points of the first above the second, and their standard error
    matrix: Matrix
    solver: str  # of the meta-strategy
    effective_size: float  # of the meta-strategy, in players
    cycles: list[Cycle]
    next_meetings: list[Meeting]  # the most informative first
    roles: tuple[str, ...]  # by seat
    cells: Cells | None  # of all stored matches; None in a zero-sum game of two with too many players

    @property
    def together(self) -> bool:
        """Whether all seats earn the same."""
        return self.spec.utility is Utility.IDENTICAL

    def by_role(self, player: str) -> list[RoleResult]:
        """Return what a player made of each other in each role; nothing where the line-ups were not added up."""
        return [] if self.cells is None else role_results(self.cells, self.roles, player)


def game_standings(
    store: MatchStore,
    spec: GameSpec,
    *,
    ratings: Ratings,
    anchors: Sequence[str] = (),
    live: Collection[str] = (),
    solver: str = "nash_averaging",
) -> GameStandings:
    """Return a game's standings; without lines if no two players have met.

    The first of ``anchors`` that played has 1500 Elo points. ``live`` policies are left out, of everything but
    ``cells``. ``solver`` is one of META_SOLVERS, raises UsageError for others; it sees the margins.
    """
    if solver not in META_SOLVERS:
        raise unknown_name("meta-strategy", solver, sorted(META_SOLVERS))
    pairs = _without(store.pairs(spec.name), live)
    duel = spec.seats == 2 and spec.utility is Utility.ZERO_SUM
    cells = None if duel and len(pairs.players) > BY_ROLE else store.cells(spec.name)
    points = elo(pairs, anchors)
    order = sorted(
        range(len(pairs.players)), key=lambda i: (points.component[i], -round(float(points.ratings[i]), 6), i)
    )
    matrix = payoff_matrix(pairs, cells, [pairs.players[i] for i in order])
    average = nash_average_of_many(matrix.margin) if order else NashAverage(np.zeros(0), np.zeros(0))
    mixture = average.mixture if solver == "nash_averaging" or not order else _mixture(matrix.margin, solver)
    connected = len(order) > 1 and points.component[order[1]] == points.component[order[0]]
    return GameStandings(
        spec,
        store.count(spec.name),
        _lines(points, order, matrix, mixture, average.ratings, _rated(ratings, spec.name)),
        points.gap(order[0], order[1]) if connected else None,
        matrix,
        solver,
        effective_size(mixture) if order else 0.0,
        find_cycles(matrix.players, matrix.margin, matrix.careful_error()),
        _next_meetings(matrix, spec),
        () if cells is None else store.roles(spec.name),
        cells,
    )


def _without(pairs: Pairs, left_out: Collection[str]) -> Pairs:
    """Return the pairs of which neither player is left out, and the players who are in any of them."""
    named = np.array([player not in left_out for player in pairs.players], dtype=bool)
    kept = named[pairs.a] & named[pairs.b]
    there = np.zeros(len(named), dtype=bool)
    there[pairs.a[kept]] = there[pairs.b[kept]] = True
    place = np.cumsum(there) - 1
    columns = {
        field.name: getattr(pairs, field.name)[kept]
        for field in fields(pairs)
        if field.name not in ("players", "a", "b")
    }
    players = tuple(player for player, is_there in zip(pairs.players, there, strict=True) if is_there)
    return Pairs(players, place[pairs.a[kept]], place[pairs.b[kept]], **columns)


def _mixture(margins: Floats, solver: str) -> Floats:
    """Return a meta-strategy [N] other than Nash averaging's."""
    return nash_of_many(margins) if solver == "nash" else META_SOLVERS[solver](margins)


Rated = tuple[Skill, dict[str, Skill]]


def _rated(ratings: Ratings, game: str) -> dict[str, Rated]:
    """Return the online ratings, and those by role, of all who were rated in a game."""
    roles = ratings.roles(game)
    return {
        line.player: (
            (line.mu, line.sigma),
            {role: skill for role in roles if (skill := ratings.role_rating(line.player, game, role)) is not None},
        )
        for line in ratings.standings(game)
    }


def _lines(
    points: Elo, order: Sequence[int], matrix: Matrix, mixture: Floats, nash: Floats, rated: Mapping[str, Rated]
) -> list[Line]:
    """Return the players in their order; ``order`` are places in ``points``."""
    margins = np.nanmean(matrix.margin, axis=1)
    lines = []
    for row, (place, player) in enumerate(zip(order, matrix.players, strict=True)):
        skill, by_role = rated.get(player, (None, {}))
        lines.append(
            Line(
                player,
                float(points.ratings[place]),
                float(points.errors[place]),
                int(points.component[place]),
                skill,
                by_role,
                float(nash[row]),
                float(mixture[row]),
                int(matrix.matches[row].sum()),
                float(margins[row]),
            )
        )
    return lines


def _next_meetings(matrix: Matrix, spec: GameSpec) -> list[Meeting]:
    """Return the pairs from whose next deal most is learned.

    Margins are read as scores in [0, 1] by the game's bounds: who wins most deals need not be who earns most.
    """
    span = spec.max_return - spec.min_return
    deals = matrix.deals.astype(np.float64)
    weights = np.triu(informative(deals, 0.5 + matrix.margin / span, matrix.margin_error / span), 1)
    least = np.partition(weights, -ADVISED, axis=None)[-ADVISED] if weights.size > ADVISED else 0.0
    a, b = np.nonzero(weights >= max(least, WORTH * weights.max(initial=0.0), 1e-300))
    best = np.lexsort((a + b, -weights[a, b]))[:ADVISED]  # of equals the strongest: lines are ranked
    found = []
    for row, column in zip(a[best].tolist(), b[best].tolist(), strict=True):
        margin = float(matrix.margin[row, column]) if matrix.deals[row, column] else None
        one, other = matrix.players[row], matrix.players[column]
        found.append(Meeting(one, other, int(matrix.deals[row, column]), margin, float(weights[row, column] * span)))
    return found
