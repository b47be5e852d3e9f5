"""``prediction``: the cross-entropy of what others do and tools return, beside the policy gradient.

    L = L_policy - sum_s w_s (1 / T_s) sum_n f_n sum_t log pi(x_nt | prompt_n, x_n1 ... x_n,t-1)

over the texts x_n of each source s (the others' replies, tools) that seats of the update's trajectories were shown
next, token by token and unmasked, T_s their tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from games.common.section import Section
from learners.batching import FreeRow
from learners.losses.given_rows import GivenRows, given_metrics, given_replies
from learners.losses.term import LossTerm, UpdateFacts, WeightedTerm
from learners.trajectories import Evidence, Trajectory

NAMES = ("prediction", "predicted_tokens")


class PredictionConfig(Section):
    """A policy learns to predict what its seat is shown next, beside its policy gradient; play does not change."""

    replies: WeightedTerm = Field(
        WeightedTerm(),
        description="adds the cross-entropy, in nats a token, of what a seat is shown of the others' turns to the loss",
    )
    tools: WeightedTerm = Field(
        WeightedTerm(), description="adds the cross-entropy, in nats a token, of what a seat's tools return to the loss"
    )

    @property
    def terms(self) -> dict[str, WeightedTerm]:
        """The terms by what they predict."""
        return {"replies": self.replies, "tools": self.tools}


def predicted_rows(
    trajectories: Sequence[Trajectory],
    evidence: Sequence[Evidence],
    factors: Mapping[str, Sequence[float]],
    weights: Mapping[str, float],
) -> GivenRows:
    """Return what trajectories' seats were shown next as rows of a loss; equal ones are one row. None at weight 0.

    ``weights`` are by source, ``factors`` multiply them by trajectory [N]; trajectories of factor 0 are left out.
    """
    rows: dict[object, FreeRow] = {}
    for source, weight in weights.items():
        texts = [
            (trajectory.game, text, factor)
            for trajectory, trajectory_evidence, factor in zip(trajectories, evidence, factors[source], strict=True)
            for text in (trajectory_evidence.predicted if factor else ())
            if text.source == source
        ]
        tokens = sum(len(text.text) for _, text, _ in texts)
        for game, text, factor in texts if weight else ():
            key = game, text.prompt, text.text
            row = rows.get(key, FreeRow(game, game, text.prompt, text.text, 1.0, 0.0, 0.0, 0.0, 0.0))
            share = weight * factor / tokens
            rows[key] = row._replace(visits=row.visits + 1.0, weight=row.weight + share)
    return GivenRows(free=tuple(rows.values()))


def _rows(facts: UpdateFacts, settings: PredictionConfig) -> GivenRows | None:
    """Return the texts that an update predicts; None where no source has a weight."""
    weights = {name: term.weight for name, term in settings.terms.items()}
    if not any(weights.values()):
        return None
    factors = {
        name: [term.factor(trajectory.game, trajectory.role) for trajectory in facts.trajectories]
        for name, term in settings.terms.items()
    }
    return predicted_rows(facts.trajectories, facts.evidence, factors, weights)


PREDICTION = LossTerm(
    given_replies(NAMES),
    PredictionConfig,
    description="the cross-entropy of what others do and tools return",
    rows=_rows,
    metrics=given_metrics(NAMES),
)
