"""The effect of a run's training on its suite: its first and last snapshots, in games trained and held out.

Both play the same deals with the same opponents, so their difference is the effect of training. A deal is one
observation.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple

from arena.records import Episode
from games.common.errors import UsageError
from league.config.suite import Suite, load_suite
from league.lab.comparisons.pairings import Pairing
from league.lab.comparisons.suite_evaluation import EvaluationPlan, SuiteEvaluation, open_evaluation
from league.lab.comparisons.suite_results import PairingResult, pairing_results
from league.population.evaluation.head_to_head import A, Meeting, mean_return
from league.population.players.engines import Engines
from league.population.storage.run_dir import Run
from league.theory.statistics import Estimate, clustered_mean

FOLDER = "suite"  # of a run: a folder for each of the two evaluations


class Change(NamedTuple):
    """One game and opponent, before training and after it."""

    pairing: Pairing
    before: PairingResult
    after: PairingResult
    difference: Estimate  # of the mean returns, the last snapshot's less the first's


def suite_of(run: Run) -> Suite:
    """Return the run's own games and its suite's held-out games, with the opponents and matches of the run."""
    settings = run.config.evaluation
    if settings.suite is None:
        raise UsageError(f"{run.path} has no evaluation.suite, so no held-out games to evaluate it on.")
    return Suite(
        training=tuple(run.config.games),
        held_out=tuple(game for game in load_suite(settings.suite).held_out if game not in run.config.games),
        opponents=settings.suite_opponents,
        matches=settings.suite_matches or 200,
        seed=run.config.seed,
    )


class Side(NamedTuple):
    """One player's results, by pairing."""

    results: list[PairingResult]
    by_deal: list[dict[int, float]]  # mean return on each deal
    spans: list[float]  # of the games' returns


def changes(run: Run, on_match: Callable[[Episode], None] = lambda _: None) -> list[Change]:
    """Play the remaining matches of both evaluations, and return their differences, in the suite's order."""
    first = min(run.population.all(), key=lambda snapshot: snapshot.step)
    before = evaluate(run, "before", f"{run.path}@{first.id}", on_match)
    after = evaluate(run, "after", str(run.path), on_match)
    differences = []
    for number, result in enumerate(after.results):
        pairs = zip(after.by_deal[number].values(), before.by_deal[number].values(), strict=True)
        gains, span = [new - old for new, old in pairs], after.spans[number]
        difference = clustered_mean(gains, range(len(gains)), (-span, span))
        differences.append(Change(result.pairing, before.results[number], result, difference))
    return differences


def evaluate(run: Run, side: str, player: str, on_match: Callable[[Episode], None] = lambda _: None) -> Side:
    """Evaluate a player on the deals of the run's snapshots, in the folder ``side`` of the run."""
    plan = EvaluationPlan(run.config.evaluation.suite or "", suite_of(run), (player,))
    with Engines() as engines:
        evaluation = SuiteEvaluation(plan, engines)
        with open_evaluation(run.path / FOLDER / side, evaluation) as store:
            evaluation.play(store, on_match)
            results = pairing_results(evaluation, store)
            numbers = range(len(evaluation.contests))
            by_deal = [_by_deal(evaluation.meetings(number, store)) for number in numbers]
    spans = [contest.spec.max_return - contest.spec.min_return for contest in evaluation.contests]
    return Side(results, by_deal, spans)


def _by_deal(meetings: list[Meeting]) -> dict[int, float]:
    returns: dict[int, list[float]] = {}
    for meeting in meetings:
        returns.setdefault(meeting.deal, []).append(mean_return(meeting.returns, meeting.seating, A))
    return {deal: fmean(values) for deal, values in returns.items()}
