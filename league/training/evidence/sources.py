"""All sources of evidence by name, and the two moments in which they are asked: after play, and before learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from games.common.registry import Registry
from league.config import RunConfig
from league.config.context import RunContext
from league.training.checkpoints.learner_checkpoint import Learning
from league.training.evidence.beliefs import SOURCE as PROBE_ANSWERS
from league.training.evidence.counterfactuals import SOURCE as COUNTERFACTUALS
from league.training.evidence.influence import SOURCE as INFLUENCE
from league.training.evidence.predicted import SOURCE as PREDICTED
from league.training.evidence.sighted import SOURCE as CRITIC_PROMPTS
from league.training.evidence.source import AfterPlay, BeforeLearning, Column, Source
from league.training.evidence.teachers import SOURCE as TAUGHT
from league.training.evidence.turn_values import CONTRIBUTIONS, REPLY_CREDITS, VALUES
from learners.advantages.rule import OF_PLAY
from learners.trajectories import Evidence, Trajectory

SOURCES = Registry(
    "evidence",
    "source of evidence",
    Source,
    "the needs of the credit rule",
    {
        "counterfactuals": COUNTERFACTUALS,
        "values": VALUES,
        "contributions": CONTRIBUTIONS,
        "reply_credits": REPLY_CREDITS,
        "influence": INFLUENCE,
        "taught": TAUGHT,
        "probe_answers": PROBE_ANSWERS,
        "critic_prompts": CRITIC_PROMPTS,
        "predicted": PREDICTED,
    },
    reserved=("rollout_tokens",),  # which is counted when weights are known
)
register = SOURCES.register


def evidence_from_play(context: RunContext, play: AfterPlay) -> list[Evidence]:
    """Return what sources know of each trajectory after play, where its role's credit rule or a loss asks for it."""
    evidence = [Evidence()] * len(play.trajectories)
    for name, source, needing in _sources(context.config, play.trajectories):
        asked = source.asked
        asking = needing | {key for key in _keys(play.trajectories) if asked is not None and asked(context, *key)}
        mine = [i for i, t in enumerate(play.trajectories) if (t.game, t.role) in asking]
        if source.make is not None and mine:
            narrowed = replace(play, trajectories=[play.trajectories[i] for i in mine])
            _fill(evidence, name, mine, source.make(context, narrowed))
    return evidence


def gather_evidence(
    config: RunConfig, state: Learning, trajectories: Sequence[Trajectory], from_play: Sequence[Evidence]
) -> list[Evidence]:
    """Return the evidence from play, with what sources know in the learner, where a role's credit rule needs it.

    They are asked before anything is learned from these trajectories.
    """
    evidence = list(from_play)
    for name, source, needing in _sources(config, trajectories):
        mine = [i for i, t in enumerate(trajectories) if (t.game, t.role) in needing]
        if source.learner is not None and mine:
            known = BeforeLearning(state, [trajectories[i] for i in mine], [evidence[i] for i in mine])
            _fill(evidence, name, mine, source.learner(config, known))
    return evidence


def _sources(
    config: RunConfig, trajectories: Sequence[Trajectory]
) -> Iterator[tuple[str, Source, set[tuple[str, str]]]]:
    """Yield all sources with the games and roles of trajectories whose rules need them."""
    needs = {key: config.credit.needs(*key) - OF_PLAY for key in _keys(trajectories)}
    for name in dict.fromkeys([*SOURCES.loaded(), *(need for own in needs.values() for need in sorted(own))]):
        yield name, SOURCES[name], {key for key, own in needs.items() if name in own}


def _keys(trajectories: Sequence[Trajectory]) -> list[tuple[str, str]]:
    """Return the games and roles of trajectories, each once."""
    return list(dict.fromkeys((trajectory.game, trajectory.role) for trajectory in trajectories))


def _fill(evidence: list[Evidence], name: str, indices: Sequence[int], column: Column) -> None:
    """Put a source's cells into trajectories' evidence. Raises ValueError for a column of another length."""
    if len(column) != len(indices):
        raise ValueError(
            f"The source of evidence {name!r} returned {len(column)} cells for {len(indices)} trajectories. It has to "
            "return one for each of play.trajectories, None where it knows nothing."
        )
    for i, cell in zip(indices, column, strict=True):
        if cell is not None:
            evidence[i] = evidence[i].with_cells(**{name: cell})
