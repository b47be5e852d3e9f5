"""Probe answers to learn from: the questions that a policy's seats were asked about a position, and the truth."""

from __future__ import annotations

from collections.abc import Sequence

from arena.lm.chunks import Tokens
from league.config.context import RunContext
from league.training.evidence.source import AfterPlay, Column, Source
from learners.trajectories import ProbeAnswers
from roles.probes import Probe
from roles.prompts import messages
from roles.replies import probed
from roles.role import Role


def probes_of(roles: Sequence[Role]) -> list[Probe]:
    """Return the probes of a game's roles, each once."""
    return list({probe.name: probe for role in roles for probe in role.probes}.values())


def listens(context: RunContext, game: str, role: str) -> bool:
    """Return whether a role learns to listen."""
    listening = context.config.beliefs.listening
    return listening.on and bool(listening.factor(game, role))


def probe_answers(context: RunContext, play: AfterPlay) -> Column:
    """Return the probes that each seat was asked about the position, with the true answers."""
    prompts: dict[object, Tokens] = {}
    column: list[tuple[ProbeAnswers, ...] | None] = []
    for trajectory in play.trajectories:
        if trajectory.policy not in play.policies:
            column.append(None)
            continue
        lm, role = play.policies[trajectory.policy].lm, context.roles[trajectory.game][trajectory.seat]
        probes = {probe.name: probed(role, probe) for probe in role.probes}
        answered = []
        for belief in play.matches[trajectory.match].beliefs:
            if belief.seat == trajectory.seat and belief.truths:
                asking = probes[belief.probe], belief.observation, belief.answers
                if (key := (trajectory.policy, *asking)) not in prompts:
                    prompts[key] = lm.encode_prompt(messages(*asking))
                answered.append(ProbeAnswers(prompts[key], belief.answers, belief.truths))
        column.append(tuple(answered))
    return column


SOURCE = Source(probe_answers, asked=listens)
