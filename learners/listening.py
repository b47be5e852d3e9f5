"""Cross-entropies beside the policy gradient: listening, and the prediction of what others do and tools return.

Listening is the log-probability of the truth at probes:

    L = L_policy - w (1 / N) sum_n f_n (1 / |T_n|) sum_{y in T_n} log pi(y | prompt_n)

over the N probes of the update's trajectories whose right answers T_n are known; pi is that over the listed answers at
temperature 1, w the term's weight and f_n its factor for the seat's role (Sarkar et al. 2025, arXiv 2502.06060).

Prediction is the log-probability of the texts x_n that seats were shown next, token by token and unmasked:

    L = L_policy - sum_s w_s (1 / T_s) sum_n f_n sum_t log pi(x_nt | prompt_n, x_n1 ... x_n,t-1)

over the texts of each source s (the others' replies, tools) of the update's trajectories, T_s their tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from learners.batching import ChoiceRow, FreeRow, ImitationRows
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
        for asked in (found.probe_answers if factor else ())
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


def predicted_rows(
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    factors: Mapping[str, Sequence[float]],
    weights: Mapping[str, float],
) -> ImitationRows:
    """Return what trajectories' seats were shown next as rows of a loss; equal ones are one row. None at weight 0.

    ``weights`` are those of the sources, ``factors`` their multiples by trajectory [N]; those of 0 are left out.
    """
    rows: dict[object, FreeRow] = {}
    for source, weight in weights.items():
        shown = [
            (trajectory.game, text, factor)
            for trajectory, found, factor in zip(trajectories, evidence, factors[source], strict=True)
            for text in (found.predicted if factor else ())
            if text.source == source
        ]
        tokens = sum(len(text.text) for _, text, _ in shown)
        for game, text, factor in shown if weight else ():
            key = game, text.prompt, text.text
            row = rows.get(key, FreeRow(game, game, text.prompt, text.text, 1.0, 0.0, 0.0, 0.0, 0.0))
            share = weight * factor / tokens
            rows[key] = row._replace(visits=row.visits + 1.0, weight=row.weight + share)
    return ImitationRows(free=tuple(rows.values()))
