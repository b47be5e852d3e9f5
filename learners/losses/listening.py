"""``listening``: minus the log-probability of the truth at probes, beside the policy gradient.

    L = L_policy - w (1 / N) sum_n f_n (1 / |T_n|) sum_{y in T_n} log pi(y | prompt_n)

over the N probes of the update's trajectories whose right answers T_n are known; pi is over the listed answers at
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

    ``factors`` multiply the weight, by trajectory, according to its role; trajectories of factor 0 are left out.  # [N]
    """
    probes = [
        (trajectory.game, probe, factor)
        for trajectory, trajectory_evidence, factor in zip(trajectories, evidence, factors, strict=True)
        for probe in (trajectory_evidence.probe_answers if factor else ())
    ]
    rows: dict[tuple[str, tuple[int, ...], tuple[str, ...]], ChoiceRow] = {}
    for game, probe, factor in probes if weight else ():
        key = game, probe.prompt, probe.answers
        if key not in rows:
            rows[key] = empty_choice(*key, 1.0)
        for truth in probe.truths:
            index, share = probe.answers.index(truth), 1.0 / len(probe.truths)
            rows[key].counts[index] += share
            rows[key].weights[index] += weight * factor * share / len(probes)
    return GivenRows(tuple(rows.values()))


def _rows(facts: UpdateFacts, settings: WeightedTerm) -> GivenRows | None:
    """Return the probes of an update; None at weight 0."""
    if not settings.weight:
        return None
    factors = [settings.factor(trajectory.game, trajectory.role) for trajectory in facts.trajectories]
    return listening_rows(facts.trajectories, facts.evidence, factors, settings.weight)


LISTENING = LossTerm(
    given_replies(NAMES),
    WeightedTerm,
    description="minus the log-probability of the truth at probes",
    rows=_rows,
    metrics=given_metrics(NAMES),
)
