"""Results of an evaluation by a suite: scores by game, opponent and role, exact values, and tests of two players.

Two players are compared game by game on the same deals: in zero-sum games by the lead of one over the other, elsewhere
by their returns with the same opponents. A deal is one observation, the test is Student's, and the p-values of all
games together are corrected by Holm's method. If matches stop when they are decided, a game in which the two meet is
decided by its confidence sequence, and every game has an equal part of the error (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from arena.records import Tabular
from games.common.errors import NotEnumerable, UsageError
from games.spec import Utility
from league.lab.comparisons.pairings import Contest, Pairing
from league.lab.comparisons.suite_evaluation import SuiteEvaluation
from league.population.evaluation.head_to_head import (
    A,
    B,
    Decided,
    Interval,
    Meeting,
    RoleResult,
    Winner,
    mean_return,
    results_by_role,
    role_names,
    score,
    seatings,
)
from league.population.players.player import Player
from league.population.results.match_store import MatchStore
from league.theory.confidence_sequence import anytime_mean
from league.theory.exact.exploitability import PolicyTable, head_to_head
from league.theory.statistics import Estimate, clustered_mean, holm, student_p
from roles.role import ReplyForm

EXACT_LIMIT = 1_000  # information states of the largest game whose values are computed


class PairingResult(NamedTuple):
    """One player's results against one opponent in one game."""

    pairing: Pairing
    matches: int
    cooperative: bool  # nobody wins, so its score means nothing
    score: Estimate  # win 1, draw ½, loss 0
    returns: Estimate  # in the game's units
    by_role: dict[str, RoleResult]
    exact: float | None  # the exact mean return; None: not computed
    decision: Decided | None


class GameTest(NamedTuple):
    """Two players compared in one game."""

    game: str
    kind: str
    difference: Estimate  # of their mean returns, the first player's less the second's
    p: float | None  # None: one deal
    corrected: float | None  # among all games of the suite
    decided: Decided | None = None  # if matches stopped when decided; then there is no p-value

    @property
    def better(self) -> int | None:
        """Return which player is shown to do better, A or B, if either is."""
        if self.decided is not None:
            return {Winner.A: A, Winner.B: B}.get(self.decided.winner)
        if self.corrected is None or self.corrected > 0.05:
            return None
        return A if self.difference.mean > 0.0 else B


def pairing_results(evaluation: SuiteEvaluation, store: MatchStore) -> list[PairingResult]:
    """Return the results of all pairings, in the suite's order. All their matches must be stored."""
    return [_result(evaluation, number, contest, store) for number, contest in enumerate(evaluation.contests)]


def _result(evaluation: SuiteEvaluation, number: int, contest: Contest, store: MatchStore) -> PairingResult:
    meetings, spec, stops = evaluation.meetings(number, store), contest.spec, evaluation.stops(contest)
    interval: Interval = anytime_mean if stops else clustered_mean
    deals = [meeting.deal for meeting in meetings]
    names = role_names(contest.players) * (2 if spec.seats == 1 else 1)
    returns = [mean_return(meeting.returns, meeting.seating, A) for meeting in meetings]
    return PairingResult(
        pairing=contest.pairing,
        matches=len(meetings),
        cooperative=spec.utility is Utility.IDENTICAL,
        score=interval([score(meeting.returns, meeting.seating) for meeting in meetings], deals, (0.0, 1.0)),
        returns=interval(returns, deals, (spec.min_return, spec.max_return)),
        by_role=results_by_role(spec, names, meetings, interval),
        exact=exact_return(contest.players),
        decision=evaluation.decision(number, store) if stops else None,
    )


def exact_return(players: tuple[Player, Player]) -> float | None:
    """Return A's exact mean return against B over all seatings; None where a policy or the game is not tabulated."""
    spec = players[A].spec
    if spec.free_text or spec.submatch_games or spec.seats < 2:
        return None
    tables: list[PolicyTable] = []
    for player in players:
        readable = all(isinstance(engine, Tabular) for engine in player.engines().values())
        if not readable or any(role.reply is not ReplyForm.CHOICE for role in player.roles):
            return None
        try:
            tables.append(player.tabulate(limit=EXACT_LIMIT).table)
        except (NotEnumerable, UsageError):
            return None
    values = []
    for seating in seatings(spec):
        returns = head_to_head([tables[side] for side in seating])
        values.append(mean_return(returns, seating, A))
    return fmean(values)


def compare_games(evaluation: SuiteEvaluation, store: MatchStore) -> list[GameTest]:
    """Return the tests of two players, game by game. All matches must be stored."""
    by_game: dict[tuple[str, str], list[int]] = {}
    for number, contest in enumerate(evaluation.contests):
        by_game.setdefault((contest.pairing.game, contest.pairing.kind), []).append(number)
    tests = [_test(evaluation, game, kind, numbers, store) for (game, kind), numbers in by_game.items()]
    p_values = [test.p for test in tests if test.p is not None]
    if evaluation.plan.until is not None:
        adjusted = iter([min(1.0, p * len(tests)) for p in p_values])
    else:
        adjusted = iter(holm(p_values))
    return [test if test.p is None else test._replace(corrected=next(adjusted)) for test in tests]


def _test(evaluation: SuiteEvaluation, game: str, kind: str, numbers: Sequence[int], store: MatchStore) -> GameTest:
    """Return the test of one game; its p-value, if any, is not yet corrected for the number of games."""
    contest = evaluation.contests[numbers[0]]
    if evaluation.stops(contest):
        decided = evaluation.decision(numbers[0], store)
        return GameTest(game, kind, decided.lead, None, None, decided)
    differences = _differences(evaluation, numbers, store)
    span = contest.spec.max_return - contest.spec.min_return
    difference = clustered_mean(differences, range(len(differences)), (-span, span))
    return GameTest(game, kind, difference, two_sided_p(differences), None)


def _differences(evaluation: SuiteEvaluation, numbers: Sequence[int], store: MatchStore) -> list[float]:
    """Return the difference of two players on each deal, averaged over seatings and opponents.  # [deals]"""
    first, meet = evaluation.plan.players[0], len(numbers) == 1  # otherwise each has at least one pairing of its own
    by_deal: dict[int, list[float]] = {}
    for number in numbers:
        sign = 1.0 if evaluation.contests[number].pairing.player == first else -1.0
        for meeting in evaluation.meetings(number, store):
            by_deal.setdefault(meeting.deal, []).append(_share(meeting, meet, sign))
    players = 1 if meet else 2  # whose meetings have equal weight in the mean of a deal
    return [players * fmean(values) for values in by_deal.values()]


def _share(meeting: Meeting, meet: bool, sign: float) -> float:
    """Return a meeting's part of the difference: the lead where the two meet, otherwise the player's own return."""
    earned = mean_return(meeting.returns, meeting.seating, A)
    return earned - mean_return(meeting.returns, meeting.seating, B) if meet else sign * earned


def two_sided_p(values: Sequence[float]) -> float | None:
    """Return the p-value of a mean of 0 by Student's test; None for one value.

    For values without any spread, G of which are not 0, it is the p-value of the sign test, 2^(1 − G).
    """
    if len(values) < 2:
        return None
    mean, error = fmean(values), stdev(values) / math.sqrt(len(values))
    if error <= 1e-12 * abs(mean):
        return 1.0 if mean == 0.0 else min(1.0, 2.0 ** (1 - len(values)))
    return student_p(mean / error, len(values) - 1)
