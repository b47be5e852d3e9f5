"""One game's standings, from its stored matches: rankings with their errors, cycles, and pairs to play next.

Players are ranked by Elo (``standings.elo``). The standings also hold the online ratings, Nash averaging with
the meta-strategy, the payoffs of all pairs, cycles, and which pairs should play next. Policies that are still
learning are left out, as their weights change between matches.

A pair's margin is half the difference of their mean returns in the matches that both are in: in a zero-sum game
of two, the mean return. In other games mean returns are more informative, and are given too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.spec import GameSpec, Utility
from league.lab.standings.elo import Elo, elo
from league.lab.standings.payoff_matrix import PairRoleResult, PayoffMatrix, payoff_matrix, role_results
from league.population.evaluation.welfare import common_interest
from league.population.results.match_store import Cells, MatchStore, Pairs
from league.population.results.ratings import Ratings, Skill
from league.theory.cycles import Cycle, find_cycles
from league.theory.opportunity_cost import greatest_costs
from league.theory.solvers.double_oracle import nash_average_of_many
from league.theory.solvers.empirical_game import largest, without_rounding
from league.theory.solvers.nash_averaging import NashAverage
from league.theory.statistics import effective_size

if TYPE_CHECKING:  # slow to import, and a tournament needs no run's configuration
    from league.config import RunConfig
    from league.population.storage.population import Snapshot

Floats = NDArray[np.float64]

NASH_AVERAGING = "nash_averaging"  # one of META_SOLVERS
MAX_SUGGESTED = 12  # pairs that should play next
LEAST_WEIGHT = 0.05  # of a suggested pair, as a share of the greatest ``opportunity_cost`` pair's
MAX_BY_ROLE = 200  # players; for more, summing all line-ups takes as long as everything else


class Standing(NamedTuple):
    """One player's row in the standings."""

    player: str
    elo: float  # points
    elo_error: float  # its standard error
    component: int  # 0 for players whose Elo can be compared with the leader's; else the index of their component
    skill: Skill | None  # the online rating; None if never rated
    by_role: dict[str, Skill]  # the online rating in each role, relative to the anchors there
    nash: float  # mean margin against the equilibrium of greatest entropy: 0 for those in it, else below
    weight: float  # in the meta-strategy
    matches: int  # against others
    margin: float  # mean over the players it met, in the game's units


class SuggestedPair(NamedTuple):
    """A pair that should play next."""

    a: str
    b: str
    deals: int  # so far
    margin: float | None  # a's so far, in the game's units; None if they never met
    weight: float  # as ``opportunity_cost`` says, in the game's units


@dataclass(frozen=True, slots=True, eq=False)
class GameStandings:
    """The standings of one game. The ranking means nothing in a cooperative game: nobody wins it."""

    spec: GameSpec
    matches: int  # all stored matches
    ranking: list[Standing]  # the best first  # [N]
    lead: tuple[float, float] | None  # Elo points of the first above the second, and their standard error
    matrix: PayoffMatrix
    solver: str  # of the meta-strategy
    effective_size: float  # of the meta-strategy, in players
    cycles: list[Cycle]
    next_pairs: list[SuggestedPair]  # the greatest ``opportunity_cost`` first
    roles: tuple[str, ...]  # by seat
    cells: Cells | None  # of all stored matches; None in a zero-sum game of two with too many players

    @property
    def cooperative(self) -> bool:
        """Whether all seats earn the same return."""
        return common_interest(self.spec)

    def by_role(self, player: str) -> list[PairRoleResult]:
        """Return a player's results against each other player in each role; none without ``cells``."""
        return [] if self.cells is None else role_results(self.cells, self.roles, player)


def left_out(config: RunConfig, snapshots: Iterable[Snapshot], spec: GameSpec) -> set[str]:
    """Return the players in a run's matches that are not in its standings: live policies, and some fixed players."""
    from league.config.load import seat_roles
    from roles.role import bystanders

    live = {snapshot.policy for snapshot in snapshots} | set(config.policies)
    return live | (bystanders(seat_roles(config.roles, spec)) - set(config.evaluation.anchors))


def game_standings(
    store: MatchStore,
    spec: GameSpec,
    *,
    ratings: Ratings,
    anchors: Sequence[str] = (),
    live: Collection[str] = (),
    solver: str = NASH_AVERAGING,
) -> GameStandings:
    """Return a game's standings; the ranking is empty if no two players have met.

    The first of ``anchors`` that played has 1500 Elo points. ``live`` policies are left out of everything but
    ``cells``. ``solver``, one of META_SOLVERS, is given the margins. Raises UsageError for an unknown solver.
    """
    mixture_of = _other_solver(solver) if solver != NASH_AVERAGING else None
    pairs = _without(store.pairs(spec.name), live)
    two_seat_zero_sum = spec.seats == 2 and spec.utility is Utility.ZERO_SUM
    cells = None if two_seat_zero_sum and len(pairs.players) > MAX_BY_ROLE else store.cells(spec.name)
    points = elo(pairs, anchors)
    order = sorted(
        range(len(pairs.players)), key=lambda i: (points.component[i], -round(float(points.ratings[i]), 6), i)
    )
    matrix = payoff_matrix(pairs, cells, [pairs.players[i] for i in order])
    margin = without_rounding(matrix.margin, _span(spec, matrix))
    average = nash_average_of_many(margin) if order else NashAverage(np.zeros(0), np.zeros(0))
    mixture = average.mixture if mixture_of is None or not order else mixture_of(margin)
    return GameStandings(
        spec,
        store.count(spec.name),
        _ranking(points, order, matrix, mixture, average.ratings, _rated(ratings, spec.name)),
        points.difference(order[0], order[1]) if order else None,  # all have met someone
        matrix,
        solver,
        effective_size(mixture) if order else 0.0,
        find_cycles(matrix.players, margin, matrix.pooled_error(), deals=matrix.deals),
        _next_pairs(matrix, spec),
        () if cells is None else store.roles(spec.name),
        cells,
    )


def _span(spec: GameSpec, matrix: PayoffMatrix) -> float:
    """Return the span of a match's returns, or the largest mean return if they have no bounds."""
    span = spec.max_return - spec.min_return
    return span if math.isfinite(span) else largest(np.nan_to_num(matrix.returns))


def _without(pairs: Pairs, excluded: Collection[str]) -> Pairs:
    """Return the pairs without an excluded player, and the players who are in any of them."""
    included = np.array([player not in excluded for player in pairs.players], dtype=bool)
    chosen = included[pairs.a] & included[pairs.b]
    present = np.zeros(len(included), dtype=bool)
    present[pairs.a[chosen]] = present[pairs.b[chosen]] = True
    index = np.cumsum(present) - 1
    columns = {
        field.name: getattr(pairs, field.name)[chosen]
        for field in fields(pairs)
        if field.name not in ("players", "a", "b")
    }
    players = tuple(player for player, is_present in zip(pairs.players, present, strict=True) if is_present)
    return Pairs(players, index[pairs.a[chosen]], index[pairs.b[chosen]], **columns)


def _other_solver(name: str) -> Callable[[Floats], Floats]:
    """Return a function from margins [N, N] to the meta-strategy [N]. Raises UsageError for an unknown solver."""
    from league.theory.meta_solvers import META_SOLVERS, with_settings  # slow to import

    solver = META_SOLVERS[name]
    chosen: Callable[[Floats], Floats] = solver.of_many or with_settings(solver, None).make
    return chosen


Rated = tuple[Skill, dict[str, Skill]]


def _rated(ratings: Ratings, game: str) -> dict[str, Rated]:
    """Return the online ratings, overall and by role, of all players rated in a game."""
    roles = ratings.roles(game)
    return {
        rating.player: (
            (rating.mu, rating.sigma),
            {role: skill for role in roles if (skill := ratings.role_rating(rating.player, game, role)) is not None},
        )
        for rating in ratings.ranking(game)
    }


def _ranking(
    points: Elo, order: Sequence[int], matrix: PayoffMatrix, mixture: Floats, nash: Floats, rated: Mapping[str, Rated]
) -> list[Standing]:
    """Return the standings of players in their order; ``order`` holds indices into ``points``."""
    margins = np.nanmean(matrix.margin, axis=1)
    ranking = []
    for row, (index, player) in enumerate(zip(order, matrix.players, strict=True)):
        skill, by_role = rated.get(player, (None, {}))
        ranking.append(
            Standing(
                player,
                float(points.ratings[index]),
                float(points.errors[index]),
                int(points.component[index]),
                skill,
                by_role,
                float(nash[row]),
                float(mixture[row]),
                int(matrix.matches[row].sum()),
                float(margins[row]),
            )
        )
    return ranking


def _next_pairs(matrix: PayoffMatrix, spec: GameSpec) -> list[SuggestedPair]:
    """Return the pairs whose next deal is greatest ``opportunity_cost``.

    Margins, scaled to [0, 1] by the game's bounds, serve as scores: winning most deals need not mean earning most.
    """
    span, number = spec.max_return - spec.min_return, len(matrix.players)
    upper = np.flatnonzero(np.triu(np.ones((number, number), bool), 1))
    deals, margin, error = (values.ravel()[upper] for values in (matrix.deals, matrix.margin, matrix.margin_error))
    places, weights = greatest_costs(deals.astype(np.float64), 0.5 + margin / span, error / span, MAX_SUGGESTED)
    worth = weights >= max(LEAST_WEIGHT * weights.max(initial=0.0), 1e-300)
    a, b = np.divmod(upper[places[worth]], max(number, 1))
    weights = weights[worth]
    best = np.lexsort((a + b, -weights))[:MAX_SUGGESTED]  # among equals the strongest, as rows are ranked
    pairs = []
    for row, column, weight in zip(a[best].tolist(), b[best].tolist(), (weights[best] * span).tolist(), strict=True):
        so_far = int(matrix.deals[row, column])
        lead = float(matrix.margin[row, column]) if so_far else None
        pairs.append(SuggestedPair(matrix.players[row], matrix.players[column], so_far, lead, weight))
    return pairs
