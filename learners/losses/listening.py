"""``listening``: minus the log-probability of the truth at probes, beside the policy gradient.

    L = L_policy - w (1 / N) sum_n f_n (1 / |T_n|) sum_{y in T_n} log pi(y | prompt_n)

over the N probes of the update's trajectories whose right answers T_n are known; pi is that over the listed answers at
temperature 1, w the term's weight and f_n its factor for the seat's role (Sarkar et al. 2025, arXiv 2502.06060).
"""

from __future__ import annotations

from collections.abc import Sequence

from learners.batching import ChoiceRow
from learners.losses.given_rows import GivenRows, empty_choice, given_metrics, given_replies
from learners.losses.term import LossTerm, UpdateFacts, WeightedTerm
from learners.trajectories import Evidence, Trajectory

NAMES = ("listening", "listened_tokens")


def listening_rows(
    trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], factors: Sequence[float], weight: float
) -> GivenRows:
    """Return the probes of trajectories as rows of a loss; equal ones are one row. None at weight 0.

    ``factors`` are the weight's multiples by trajectory, those of their roles; those of 0 are left out.  # [N]
    """
    heard = [
        (trajectory.game, asked, factor)
        for trajectory, found, factor in zip(trajectories, evidence, factors, strict=True)
        for asked in (found.probe_answers if factor else ())
    ]
    rows: dict[tuple[str, tuple[int, ...], tuple[str, ...]], ChoiceRow] = {}
    for game, asked, factor in heard if weight else ():
        key = game, asked.prompt, asked.answers
        if key not in rows:
            rows[key] = empty_choice(*key, 1.0)
        for truth in asked.truths:
            place, share = asked.answers.index(truth), 1.0 / len(asked.truths)
            rows[key].counts[place] += share
            rows[key].weights[place] += weight * factor * share / len(heard)
    return GivenRows(tuple(rows.values()))


def _rows(facts: UpdateFacts, settings: WeightedTerm) -> GivenRows | None:
    """Return the probes of an update; None at weight 0."""
    if not settings.weight:
        return None
    factors = [settings.factor(one.game, one.role) for one in facts.trajectories]
    return listening_rows(facts.trajectories, facts.evidence, factors, settings.weight)


LISTENING = LossTerm(
    given_replies(NAMES),
    WeightedTerm,
    description="minus the log-probability of the truth at probes",
    rows=_rows,
    rows_type=GivenRows,
    metrics=given_metrics(NAMES),
)
