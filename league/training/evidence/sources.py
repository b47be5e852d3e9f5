"""All sources of evidence by name, and the two times at which they are called: after play, and before learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from games.common.registry import Registry
from league.config import RunConfig
from league.config.context import RunContext
from league.training.evidence.beliefs import SOURCE as PROBE_ANSWERS
from league.training.evidence.counterfactuals import SOURCE as COUNTERFACTUALS
from league.training.evidence.eligible import SOURCE as ELIGIBLE
from league.training.evidence.influence import SOURCE as INFLUENCE
from league.training.evidence.predicted import SOURCE as PREDICTED
from league.training.evidence.sighted import SOURCE as CRITIC_PROMPTS
from league.training.evidence.source import AfterPlay, BeforeLearning, Column, Source
from league.training.evidence.stated import SOURCE as STATED
from league.training.evidence.teachers import SOURCE as TAUGHT
from league.training.evidence.turn_values import CONTRIBUTIONS, REPLY_CREDITS, VALUES, estimator_needs
from learners.advantages.rule import OF_PLAY
from learners.trajectories import Evidence, Trajectory

if TYPE_CHECKING:  # torch is slow to import
    from league.training.checkpoints.learner_checkpoint import Learning

SOURCES = Registry(
    "evidence",
    "source of evidence",
    Source,
    "the needs of the credit rule",
    {
        "counterfactuals": COUNTERFACTUALS,
        "reply_credits": REPLY_CREDITS,  # before the contributions, which may be read from them
        "values": VALUES,
        "contributions": CONTRIBUTIONS,
        "influence": INFLUENCE,
        "taught": TAUGHT,
        "probe_answers": PROBE_ANSWERS,
        "critic_prompts": CRITIC_PROMPTS,
        "predicted": PREDICTED,
        "stated": STATED,
        "eligible": ELIGIBLE,
    },
    reserved=("rollout_tokens", "selection"),  # counted when weights are known, and of the rules of selection
)
register = SOURCES.register


def evidence_from_play(context: RunContext, play: AfterPlay) -> list[Evidence]:
    """Return the evidence about each trajectory after play, where its role's credit rule or a loss needs it."""
    evidence, roles = [Evidence()] * len(play.trajectories), _keys(play.trajectories)
    for name, source, needing in _sources(context.config, roles):
        needed_by_loss = source.asked
        keys = needing | {key for key in roles if needed_by_loss is not None and needed_by_loss(context, *key)}
        if source.make is not None and keys:
            indices = [i for i, t in enumerate(play.trajectories) if (t.game, t.role) in keys]
            narrowed = replace(play, trajectories=[play.trajectories[i] for i in indices])
            _fill(evidence, name, indices, source.make(context, narrowed))
    return evidence


def gather_evidence(
    config: RunConfig, state: Learning, trajectories: Sequence[Trajectory], from_play: Sequence[Evidence]
) -> list[Evidence]:
    """Return the evidence from play, with the learner's sources added where a role's credit rule needs them.

    They are called before anything is learned from these trajectories.
    """
    evidence = list(from_play)
    for name, source, needing in _sources(config, _keys(trajectories)):
        if source.learner is not None and needing:
            indices = [i for i, t in enumerate(trajectories) if (t.game, t.role) in needing]
            before_learning = BeforeLearning(state, [trajectories[i] for i in indices], [evidence[i] for i in indices])
            _fill(evidence, name, indices, source.learner(config, before_learning))
    return evidence


def _sources(config: RunConfig, roles: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Source, set[tuple[str, str]]]]:
    """Yield all sources, each with the games and roles, of those given, whose rules or estimators need it."""
    needs = {key: config.credit.needs(*key) - OF_PLAY | estimator_needs(config, *key) for key in roles}
    for name in dict.fromkeys(
        [*SOURCES.loaded(), *(need for role_needs in needs.values() for need in sorted(role_needs))]
    ):
        yield name, SOURCES[name], {key for key, role_needs in needs.items() if name in role_needs}


def _keys(trajectories: Sequence[Trajectory]) -> list[tuple[str, str]]:
    """Return the games and roles of trajectories, each once."""
    return list(dict.fromkeys((trajectory.game, trajectory.role) for trajectory in trajectories))


def _fill(evidence: list[Evidence], name: str, indices: Sequence[int], column: Column) -> None:
    """Put a source's cells into trajectories' evidence. Raises ValueError for a column of another length."""
    if len(column) != len(indices):
        raise ValueError(
            f"The source of evidence {name!r} returned {len(column)} cells for {len(indices)} trajectories. It must "
            "return one for each of play.trajectories, None where it knows nothing."
        )
    for i, cell in zip(indices, column, strict=True):
        if cell is not None:
            evidence[i] = evidence[i].with_cells(**{name: cell})
