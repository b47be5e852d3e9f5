"""All that is known of an iteration's trajectories beside play, before a learner has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arena.records import Episode
from league.config.context import RunContext
from league.training.evidence.beliefs import with_heard
from league.training.evidence.continued import PlayedOn
from league.training.evidence.counterfactuals import counterfactuals
from league.training.evidence.influence import influences
from league.training.evidence.predicted import with_predicted
from league.training.evidence.sighted import with_sight
from league.training.evidence.teachers import Teachers
from learners.trajectories import Evidence, Trajectory
from learners.update.policy import Policy


def evidence_from_play(
    context: RunContext,
    policies: Mapping[str, Policy],
    teachers: Teachers | None,
    played_on: PlayedOn,
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
) -> list[Evidence]:
    """Return the evidence of each trajectory; ``policies`` have the weights that the matches were played with."""
    evidence = counterfactuals(context, policies, episodes, trajectories)
    evidence = _with_played_on(policies, played_on, evidence)
    if teachers is not None:
        evidence = teachers.advise(episodes, trajectories, evidence)
    for add in (with_heard, with_sight, with_predicted):
        evidence = add(context, policies, episodes, trajectories, evidence)
    return evidence


def _with_played_on(
    policies: Mapping[str, Policy], played_on: PlayedOn, evidence: Sequence[Evidence]
) -> list[Evidence]:
    """Return the evidence with what was found by playing on."""
    found = list(evidence)
    for i, values in played_on.values.items():
        found[i] = found[i]._replace(values=values)
    for i, contributions in played_on.contributions.items():
        found[i] = found[i]._replace(contributions=contributions)
    for i, reply_credits in played_on.reply_credits.items():
        found[i] = found[i]._replace(reply_credits=reply_credits)
    moved = influences(policies, list(played_on.answers.values())) if played_on.answers else []
    for i, influence in zip(played_on.answers, moved, strict=True):
        found[i] = found[i]._replace(influence=influence)
    return found
