"""Listening: the log-probability of the truth at probes, an auxiliary term of an update's loss.

    L = L_policy - w (1 / N) sum_n f_n (1 / |T_n|) sum_{y in T_n} log pi(y | prompt_n)

over the N probes of the update's trajectories whose right answers T_n are known; pi is that over the listed answers at
temperature 1, w the term's weight and f_n its factor for the seat's role (Sarkar et al. 2025, arXiv 2502.06060).
"""

from __future__ import annotations

from collections.abc import Sequence

from learners.batching import ChoiceRow, ImitationRows
from learners.trajectories import Evidence, Trajectory


def listening_rows(
    trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], factors: Sequence[float], weight: float
) -> ImitationRows:
    """Return the probes of trajectories as rows of a loss; equal ones are one row. None at weight 0.

    ``factors`` are the weight's multiples by trajectory, those of their roles; those of 0 are left out.  # [N]
    """
    heard = [
        (trajectory.game, asked, factor)
        for trajectory, found, factor in zip(trajectories, evidence, factors, strict=True)
        for asked in (found.heard if factor else ())
    ]
    rows: dict[object, ChoiceRow] = {}
    for game, asked, factor in heard if weight else ():
        key = game, asked.prompt, asked.answers
        if key not in rows:
            counts, weights, gains, losses = ([0.0] * len(asked.answers) for _ in range(4))
            rows[key] = ChoiceRow(game, game, asked.prompt, asked.answers, 1.0, counts, weights, gains, losses)
        for truth in asked.truths:
            place, share = asked.answers.index(truth), 1.0 / len(asked.truths)
            rows[key].counts[place] += share
            rows[key].weights[place] += weight * factor * share / len(heard)
    return ImitationRows(tuple(rows.values()))
