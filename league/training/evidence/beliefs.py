"""What a run makes of its seats' beliefs: what they learn to say at probes, and what the board shows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from arena.lm.chunks import Tokens
from arena.records import Episode, flatten_episodes
from league.config.context import RunContext
from learners.trajectories import Evidence, Heard, Trajectory
from roles.probes import Probe
from roles.prompts import messages
from roles.replies import probed
from roles.role import Role

if TYPE_CHECKING:
    from learners.update.policy import Policy

Metrics = dict[str, float]
MOST_SPEECHES = 12  # of a match, of which each has a number on the board


def probes_of(roles: Sequence[Role]) -> list[Probe]:
    """Return the probes of a game's roles, each once."""
    return list({probe.name: probe for role in roles for probe in role.probes}.values())


def with_heard(
    context: RunContext,
    policies: Mapping[str, Policy],
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
    evidence: list[Evidence],
) -> list[Evidence]:
    """Return the evidence with what each seat was asked, where its role learns to listen; the same where none does."""
    listening = context.config.beliefs.listening
    if not listening.on:
        return evidence
    matches = {episode.request.index: episode for episode in flatten_episodes(episodes)}
    prompts: dict[object, Tokens] = {}
    found = list(evidence)
    for i, one in enumerate(trajectories):
        if one.policy in policies and listening.factor(one.game, one.role):
            lm, role = policies[one.policy].lm, context.roles[one.game][one.seat]
            probes = {probe.name: probed(role, probe) for probe in role.probes}
            heard = []
            for belief in matches[one.match].beliefs:
                if belief.seat == one.seat and belief.truths:
                    asking = probes[belief.probe], belief.observation, belief.answers
                    if (key := (one.policy, *asking)) not in prompts:
                        prompts[key] = lm.encode_prompt(messages(*asking))
                    heard.append(Heard(prompts[key], belief.answers, belief.truths))
            found[i] = evidence[i]._replace(heard=tuple(heard))
    return found
